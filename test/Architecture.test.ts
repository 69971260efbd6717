import { readdirSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "vitest"

const root = fileURLToPath(new URL("../", import.meta.url))

const files = ["src", "client", "sandbox"].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => /\.tsx?$/.test(name))
    .map((name) => join(folder, name))
)

const text = (file: string) => readFileSync(join(root, file), "utf8")

const importPattern = /(?:from|import)\s*\(?\s*"(\.[^"]+)"/g

/** What a file imports of the repository, types included. */
const imports: ReadonlyMap<string, ReadonlyArray<string>> = new Map(
  files.map((file) => [
    file,
    [...text(file).matchAll(importPattern)]
      .map(([, target = ""]) => join(dirname(file), target))
      .filter((target) => /\.tsx?$/.test(target))
  ])
)

const importsOf = (file: string): ReadonlyArray<string> => imports.get(file) ?? []

const room = (file: string): string => {
  const [first = "", second = "", third = ""] = file.split("/")
  if (first === "sandbox") return second === "upstreams" ? "sandbox/upstreams" : "sandbox"
  if (first !== "src") return first
  return third === "" ? "top" : second
}

/** Which rooms a room may import besides itself; imports run one way (docs/architecture.md, "The house"). */
const allowed: Readonly<Record<string, ReadonlyArray<string>>> = {
  schema: [],
  services: ["schema"],
  layers: ["schema", "services"],
  http: ["schema", "services"],
  client: ["schema"],
  cli: ["schema", "services", "layers", "http", "top"],
  top: ["schema", "services", "layers", "http"],
  "sandbox/upstreams": [],
  sandbox: ["schema", "services", "layers", "http", "sandbox/upstreams", "top"]
}

/** One command of the command line starts the sandbox, and imports it only then. */
const startsSandbox = (file: string, target: string) =>
  file === "src/cli/Program.ts" && target === "sandbox/Program.ts"

/** Everything that a file reaches through imports, without the file itself unless a circle leads back to it. */
const reachableFrom = (start: string): ReadonlySet<string> => {
  const seen = new Set<string>()
  const queue = [...importsOf(start)]
  for (let file = queue.pop(); file !== undefined; file = queue.pop()) {
    if (seen.has(file)) continue
    seen.add(file)
    queue.push(...importsOf(file))
  }
  return seen
}

describe("Imports run one way", () => {
  it("between the rooms of the house", () => {
    const wrong = files.flatMap((file) =>
      importsOf(file)
        .filter(
          (target) =>
            room(target) !== room(file) &&
            !(allowed[room(file)] ?? []).includes(room(target)) &&
            !startsSandbox(file, target)
        )
        .map((target) => `${file} -> ${target}`)
    )
    expect(wrong).toEqual([])
    expect(files.length).toBeGreaterThan(200)
  })

  it("the client imports of the schemas only the failure table and the patterns, which need no library", () => {
    const schemas = files
      .filter((file) => room(file) === "client")
      .flatMap(importsOf)
      .filter((target) => room(target) === "schema")
    expect([...new Set(schemas)].sort()).toEqual(["src/schema/FailureTable.ts", "src/schema/Patterns.ts"])
    const needed = new Set(schemas.flatMap((file) => [file, ...reachableFrom(file)]))
    expect([...needed].filter((file) => /^(?:import|export) (?!type).*from "[^.]/m.test(text(file)))).toEqual(
      []
    )
  })

  it("without a circle, not even of types", () => {
    expect(files.filter((file) => reachableFrom(file).has(file))).toEqual([])
  })
})

describe("Tests outlive a rebuilt room", () => {
  const tests = readdirSync(join(root, "test"), { recursive: true, encoding: "utf8" })
    .filter((name) => /\.(?:tsx?|mts)$/.test(name))
    .map((name) => join("test", name))
  const innards =
    /from "[^"]*src\/(?:http\/(?:middleware|transport|body)|layers\/(?:store|iam|delivery|upstream|diagnostics|observability|process))/

  it("at most 40 files import the innards of one", () => {
    expect(tests.filter((file) => innards.test(text(file))).length).toBeLessThanOrEqual(40)
  })

  it("and none exports again what it imports", () => {
    expect(tests.filter((file) => /^export .*from "/m.test(text(file)))).toEqual([])
  })
})

describe("Style that the tools do not see", () => {
  const server = files.filter((file) => !file.startsWith("sandbox/"))
  const matches = (where: ReadonlyArray<string>, pattern: RegExp) =>
    where.filter((file) => pattern.test(text(file)))

  it("the environment is read in one place", () => {
    expect(matches(server, /process\.env/)).toEqual(["src/layers/settings/Settings.ts"])
  })

  it("time comes from Effect's clock, and in the client, which has no Effect, from one place", () => {
    expect(matches(server, /Date\.now|new Date\(\)/)).toEqual(["client/calls/Time.ts"])
  })

  it("transactions are the store's own: in the library's, a COMMIT that stored nothing is a success", () => {
    expect(matches(server, /withTransaction\(|withFiberRuntime/)).toEqual([])
  })

  it("the drivers of the databases are imported where a connection is made", () => {
    expect(matches(server, /(?:from|import\()\s*"(?:better-sqlite3|pg)"/)).toEqual([
      "src/layers/store/postgres/PgStore.ts"
    ])
  })

  it("no statement throws", () => {
    expect(matches(server, /(?:^\s*|[){:] |\belse )throw /m)).toEqual([])
  })
})

/** Names of secrets and of values that are made of one. */
const secretName = /(?:secret|signature|digest|password|hmac|credential|bearer|token)$/i

/** Comparisons that reveal nothing: of digests of a report's text. */
const comparable = ["src/services/store/Reports.ts: row.contentDigest"]

/** An operand of `===` or `!==`: names, and at its end the arguments of a call. */
const operand = /([\w.?![\]]+)(?:\([^()]*\))?/.source
const comparison = new RegExp(`${operand}\\s+[!=]==\\s+${operand}`, "g")

/** Operands that are texts by such a name; `=== undefined` and `=== null` compare no text. */
const comparedSecrets = (file: string): ReadonlyArray<string> =>
  [...text(file).matchAll(comparison)].flatMap(([, ...sides]) => {
    const named = sides.find((side) => secretName.test(side))
    const isText = sides.every((side) => !/^(?:undefined|null|true|false|\d+)$/.test(side))
    return isText && named !== undefined ? [`${file}: ${named}`] : []
  })

it("Secrets are compared in constant time, or found by their digest: `===` stops at the first difference", () => {
  const compared = files.filter((file) => file.startsWith("src/")).flatMap(comparedSecrets)
  expect(compared.filter((one) => !comparable.includes(one))).toEqual([])
})

it("Words have one meaning: no two files of the service export a type of the same name", () => {
  const homes = new Map<string, Array<string>>()
  for (const file of files.filter((name) => name.startsWith("src/")))
    for (const [, name = ""] of text(file).matchAll(/^export (?:interface|type|class) (\w+)/gm))
      homes.set(name, [...(homes.get(name) ?? []), file])
  expect([...homes].filter(([, [, ...others]]) => others.length > 0)).toEqual([])
})
