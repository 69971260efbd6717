import { readdirSync, readFileSync } from "node:fs"
import { dirname, join, normalize, relative } from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "vitest"

const root = fileURLToPath(new URL("../src/", import.meta.url))

const files = readdirSync(root, { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".ts"))
  .map((name) => normalize(name))

const importPattern = /(?:from|import)\s*\(?\s*"(\.[^"]+)"/g

const importsOf = (file: string): ReadonlyArray<string> =>
  [...readFileSync(join(root, file), "utf8").matchAll(importPattern)].map(([, target = ""]) =>
    relative(root, join(root, dirname(file), target))
  )

const room = (file: string): string => {
  if (file.startsWith("sandbox/upstreams/")) return "sandbox/upstreams"
  if (file.startsWith("http/api/") || file === "http/Api.ts") return "http/api"
  const [first = "", ...rest] = file.split("/")
  return rest.length === 0 ? "top" : first
}

/** Which rooms a room may import besides itself; imports run one way (docs/design.md, "The house"). */
const allowed: Readonly<Record<string, ReadonlyArray<string>>> = {
  schema: [],
  services: ["schema"],
  layers: ["schema", "services"],
  "http/api": ["schema"],
  http: ["schema", "services", "http/api"],
  client: ["schema", "http/api"],
  cli: ["schema", "services", "layers", "http", "http/api", "top"],
  top: ["schema", "services", "layers", "http", "http/api"],
  "sandbox/upstreams": [],
  sandbox: ["schema", "services", "layers", "http", "http/api", "sandbox/upstreams", "top"]
}

describe("Imports run one way", () => {
  it("between the rooms of the house", () => {
    const wrong = files.flatMap((file) =>
      importsOf(file)
        .filter((target) => target.startsWith("..") === false)
        .filter(
          (target) =>
            room(target) !== room(file) &&
            !(allowed[room(file)] ?? []).includes(room(target)) &&
            // The next test's one exception.
            !(room(file) === "http/api" && target === "services/Caller.ts") &&
            // One command starts it, and imports it only then.
            !(file === "cli/commands/Sandbox.ts" && target === "sandbox/Program.ts")
        )
        .map((target) => `${file} -> ${target}`)
    )
    expect(wrong).toEqual([])
    expect(files.length).toBeGreaterThan(50)
  })

  it("the contract and the middleware tags depend on schema alone, besides the values they provide", () => {
    // Middleware tags name the values that they provide, which live with the use cases.
    const wrong = files
      .filter((file) => room(file) === "http/api")
      .flatMap((file) => importsOf(file).map((target) => ({ file, target })))
      .filter(({ target }) => room(target) === "services" && target !== "services/Caller.ts")
    expect(wrong).toEqual([])
  })

  it("the bundle of the server cannot reach the sandbox", () => {
    const seen = new Set<string>()
    const queue = ["main.ts"]
    for (let file = queue.pop(); file !== undefined; file = queue.pop()) {
      if (seen.has(file)) continue
      seen.add(file)
      queue.push(...importsOf(file).filter((target) => target.endsWith(".ts")))
    }
    expect([...seen].filter((file) => file.startsWith("sandbox"))).toEqual([])
    expect(seen.size).toBeGreaterThan(40)
  })
})

describe("Style that the tools do not see", () => {
  const text = (file: string) => readFileSync(join(root, file), "utf8")
  const server = files.filter((file) => !file.startsWith("sandbox/"))
  const matches = (where: ReadonlyArray<string>, pattern: RegExp) =>
    where.filter((file) => pattern.test(text(file)))

  it("the environment is read in one place", () => {
    expect(matches(server, /process\.env/)).toEqual(["layers/Settings.ts"])
  })

  it("time comes from Effect's clock", () => {
    expect(matches(server, /Date\.now|new Date\(\)/)).toEqual([])
  })

  it("nothing is thrown", () => {
    expect(matches(server, /\bthrow\b(?! )|^\s*throw /m)).toEqual([])
  })
})
