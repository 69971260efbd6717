/** The client as it is shipped: in bundles of its users, required by CommonJS, in the examples, and its declarations. */
import { execFile, type ExecFileOptions } from "node:child_process"
import { cp, readdir, readFile, writeFile } from "node:fs/promises"
import { statSync } from "node:fs"
import { join } from "node:path"
import { gzipSync } from "node:zlib"
import { build } from "esbuild"
import * as ts from "typescript"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { reasonTable } from "../../client/failures/ErrorTable.ts"
import { failureTable } from "../../src/schema/FailureTable.ts"
import { root } from "../world/Fleet.ts"
import { type Built, buildClient, makeConsumer } from "./support/Built.ts"
import { startTestBench, type TestBench } from "./support/TestBench.ts"

let built: Built
let project: Built
let bench: TestBench
beforeAll(async () => {
  built = await buildClient({ types: true })
  project = await makeConsumer(built, ["effect", "@effect", "tsx"])
  await cp(join(root, "examples"), join(project.path, "examples"), { recursive: true })
  bench = await startTestBench()
})
afterAll(async () => {
  await bench.close()
  for (const { remove } of [built, project]) remove()
})

const execute = (words: ReadonlyArray<string>, options: ExecFileOptions) =>
  new Promise<{ readonly code: unknown; readonly out: string; readonly err: string }>((resolve) => {
    execFile(process.execPath, words, { ...options, encoding: "utf8" }, (error, out, err) =>
      resolve({ code: error === null ? 0 : (error.code ?? error.signal), out, err })
    )
  })

/** A program in the project; the examples share one home, and so one session. */
const run = (words: ReadonlyArray<string>, environment: NodeJS.ProcessEnv = {}) => {
  const urls = { MUSIC_URL: `${bench.base}/examples`, SILICON_HOME: project.path }
  return execute(words, { cwd: project.path, env: { PATH: process.env.PATH, ...urls, ...environment } })
}

/** Most bytes, gzipped. */
it.each([
  ["createMusicClient", "", 20_000],
  ["createMusicClient, webSessionStore", "createTelemetry", 28_000]
])("A page that uses %s %s loads at most %i bytes", async (names, telemetry, bound) => {
  const contents = `import { ${names} } from "music-client"
    import { ${telemetry} } from "music-client/telemetry"
    globalThis.used = [${names}, ${telemetry}]`
  const stdin = { contents, resolveDir: project.path }
  const { outputFiles } = await build({ stdin, bundle: true, minify: true, write: false, format: "esm" })
  expect(gzipSync(outputFiles[0]?.contents ?? "").length).toBeLessThanOrEqual(bound)
})

it("The package has at most 400 KB, and names its sources at GitHub", async () => {
  const files = await readdir(built.path, { recursive: true, withFileTypes: true })
  const sizes = files.flatMap((file) =>
    file.isFile() ? [statSync(join(file.parentPath, file.name)).size] : []
  )
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(400_000)
  expect(JSON.parse(await readFile(join(built.path, "package.json"), "utf8"))).toMatchObject({
    repository: { url: "git+https://github.com/owner/music.git" },
    homepage: "https://github.com/owner/music#readme"
  })
})

it("A CommonJS program requires each entry point", async () => {
  await writeFile(
    join(project.path, "program.cjs"),
    `
    const { createMusicClient } = require("music-client")
    const { fileSessionStore } = require("music-client/node")
    const { createTelemetry } = require("music-client/telemetry")
    const { MusicClient } = require("music-client/effect")
    const [, , baseUrl, slt] = process.argv
    const sessionStore = fileSessionStore({ directory: __dirname + "/commonjs" })
    const options = { baseUrl, source: "cli", telemetry: false, sessionStore }
    const client = createMusicClient(options)
    const { ok } = createTelemetry(client).record("musicclidaemon", {})
    client.login(slt).then(({ value }) => console.log(ok, typeof MusicClient.layer(options), value.actor.public_id))`
  )
  const ended = await run(["program.cjs", `${bench.base}/commonjs`, bench.slt()])
  expect(ended).toEqual({ code: 0, err: "", out: "true object si:deejay\n" })
})

describe("docs/client.md", () => {
  /** The programs of the page, in their order, in a folder and with the service of the test. */
  const programsOf = async () => {
    const text = await readFile(join(root, "docs/client.md"), "utf8")
    return [...text.matchAll(/```js\n([\s\S]*?)```/g)].map(([, program = ""]) =>
      program.replace("https://music.example", `${bench.base}/page`).replace("/var/lib", project.path)
    )
  }

  it("has a first program that logs in and sends a ting, with what its commands print", async () => {
    const [program = ""] = await programsOf()
    await writeFile(join(project.path, "first.mjs"), program)
    const ended = await run(["first.mjs", bench.slt(), `${bench.base}/first`])
    expect(ended).toMatchObject({ code: 0, out: expect.stringMatching(/^sent si:deejay\//), err: "" })
    const text = await readFile(join(root, "docs/client.md"), "utf8")
    const printed = await readFile(join(root, "sandbox/Guide.ts"), "utf8")
    const [, mint = "none"] = /^(SLT=.*)$/m.exec(text) ?? []
    expect(printed.replaceAll("\\\\", "\\")).toContain(mint)
    expect(printed).toMatch(/BASE=\$\{base\}; IAM=/)
  })

  it("has examples of every method, of errors, stubs and telemetry that run as they are", async () => {
    const [, results = "", calls = "", stub = "", telemetry = ""] = await programsOf()
    // Each call says how it ended.
    const checked = calls.replaceAll(
      /await (client\.(?!close|status)\w+\(.*\)) \/\//g,
      "console.log((await $1).ok) //"
    )
    const login = `console.log((await client.login(process.argv[2])).ok)`
    const imports = /^import .*\n/gm
    const body = [results.replace("const me =", `${login}\nconst me =`), stub, telemetry, checked]
    const lines = new Set(body.flatMap((part) => part.match(imports) ?? []))
    await writeFile(
      join(project.path, "page.mjs"),
      [...lines, ...body.map((part) => part.replaceAll(imports, ""))].join("")
    )
    const { code, err, out } = await run(["page.mjs", bench.slt()])
    expect([code, err]).toEqual([0, ""])
    expect(out).toMatch(/^true\nsi:deejay web-|^true\nsi:deejay daemon-/)
    expect(out).toContain("1.0.0 not_found")
    expect(out.match(/^true$/gm)).toHaveLength(1 + [...calls.matchAll(/client\.(?!close|status)/g)].length)
  })
})

it("The line that the sandbox prints for music-client logs in", async () => {
  const printed = await readFile(join(root, "sandbox/Guide.ts"), "utf8")
  const [, line = ""] = /^ {2}node (--input-type=module -e '[^']*') \$BASE \$SLT$/m.exec(printed) ?? []
  const [flag = "", program = ""] = line.split(" -e ")
  const words = [flag, "-e", program.slice(1, -1), `${bench.base}/printed`, bench.slt()]
  expect(await run(words)).toMatchObject({ code: 0, out: expect.stringContaining("ok: true"), err: "" })
})

it("The examples run unchanged: a command line logs in, and a daemon beside it works in the same session", async () => {
  const cli = (...words: ReadonlyArray<string>) => run(["examples/promise-cli.mjs", ...words])
  const out = expect.stringContaining('"authenticated": false')
  expect(await cli("status")).toMatchObject({ code: 0, out })
  const err = expect.stringContaining("slt_rejected")
  expect(await cli("login", "oac_refused")).toMatchObject({ code: 1, err })
  expect(await cli("dance")).toMatchObject({ code: 2 })
  expect(await cli("login", bench.slt())).toMatchObject({ code: 0 })
  expect(await readdir(join(project.path, "music"))).toHaveLength(1)
  const environment = { MUSIC_DAEMON_TICKS: "2", MUSIC_DAEMON_PAUSE: "10 millis" }
  const daemon = () => run(["--import", "tsx", "examples/effect-daemon.ts"], environment)
  // The second is the first one after a restart; it sends other triggers.
  const lives = [await daemon(), await daemon()]
  expect(lives).toMatchObject([{ code: 0 }, { code: 0 }])
  const fired = lives.flatMap(({ out }) => [...out.matchAll(/trigger (\S+Z): (msg_\w+)(?! \(had)/g)])
  expect(new Set(fired.map(([, , id]) => id)).size).toBe(4)
  for (const [, due] of fired) expect(bench.tings(`si:deejay/daemon/${due}`)).toBe(1)
  expect(bench.attempts("examples", "/api/v1/telemetry")).toBeGreaterThan(0)
  expect(await cli("logout")).toMatchObject({ code: 0 })
})

const latest = "typescript"
/** A package of its own, so that it does not take the place of `tsc`. */
const oldest = "@tsd/typescript/typescript"

/** Type-checks a program in a project of its own, including the declarations of its libraries; resolves to the errors. */
const check = async (
  program: string,
  endings: ReadonlyArray<string>,
  installed: ReadonlyArray<string>,
  given: object,
  compiler = latest
) => {
  const { path, remove } = await makeConsumer(built, installed)
  const files = endings.map((ending) => `program.${ending}`)
  for (const file of files) await writeFile(join(path, file), program)
  const strict = { strict: true, skipLibCheck: false, noEmit: true }
  const compilerOptions = { ...strict, target: "es2022", lib: ["es2022", "dom"], types: [], ...given }
  await writeFile(join(path, "tsconfig.json"), JSON.stringify({ compilerOptions, files }))
  const { err, out } = await execute([join(root, "node_modules", compiler, "lib/tsc.js")], { cwd: path })
  remove()
  return out + err
}

const promiseProgram = `
import { createMusicClient, hasCode, type Result, webSessionStore } from "music-client"
import { fileSessionStore } from "music-client/node"
import { createTelemetry, type Telemetry } from "music-client/telemetry"

export const main = async () => {
  const client = createMusicClient({
    baseUrl: "https://music.example", source: "web", telemetry: true, sessionStore: webSessionStore()
  })
  const me = await client.me({ signal: AbortSignal.timeout(1000) })
  if (me.ok) {
    const name: string = me.value.actor.public_id
    void name
  } else {
    if (me.error.code === "rate_limited") { const status: 429 = me.error.status; void status }
    if (me.error.code === "unexpected_answer") { const status: number = me.error.status; void status }
    if (hasCode(me.error, "logged_out", "not_logged_in")) { const status: null = me.error.status; void status }
    // @ts-expect-error no such code
    if (me.error.code === "no_such_code") void me
  }
  const version = await client.version()
  // @ts-expect-error the version needs no room for reports
  if (!version.ok && version.error.code === "reports_full") void version
  const telemetry: Telemetry = createTelemetry(client)
  void telemetry
  const sent: Result<{ readonly replayed: boolean }> = await client.ting({ type: "t", key: "k", data: {} })
  void sent
  // @ts-expect-error the organisation and the recipient come from the session
  await client.ting({ type: "t", key: "k", data: {}, for: "si:deejay" })
  createMusicClient({
    // @ts-expect-error no such source
    baseUrl: "https://music.example", source: "tv", telemetry: false,
    sessionStore: fileSessionStore({ directory: "music" })
  })
}
`

const nodenext = { module: "nodenext" }
const bundler = { module: "esnext", moduleResolution: "bundler" }
const exact = { exactOptionalPropertyTypes: true }

/** How programs are compiled: the ending of a file selects its module format. */
it.each<readonly [string, ReadonlyArray<string>, ReadonlyArray<string>, object, string]>([
  ["ES modules, CommonJS and exact types", ["mts", "cts"], [], { ...nodenext, ...exact }, latest],
  ["a bundler", ["ts"], [], bundler, latest],
  ["a resolver without exports", ["ts"], [], { module: "commonjs", moduleResolution: "node10" }, latest],
  ["the oldest TypeScript", ["mts", "cts"], [], nodenext, oldest],
  [
    "no types of browsers",
    ["mts"],
    ["@types", "undici-types"],
    { ...nodenext, lib: ["es2022"], types: ["node"] },
    latest
  ]
])("A project with %s type-checks", async (_, endings, installed, options, compiler) => {
  expect(await check(promiseProgram, endings, installed, options, compiler)).toBe("")
})

it("docs/client.md names the oldest TypeScript", async () => {
  const page = await readFile(join(root, "docs/client.md"), "utf8")
  const { version } = JSON.parse(await readFile(join(root, "node_modules", oldest, "package.json"), "utf8"))
  expect(page).toContain(`TypeScript ${/^\d+\.\d+/.exec(version)} or newer`)
})

it("An editor shows a sentence for each code that a call can fail with, and for each reason", async () => {
  const project = await makeConsumer(built, [])
  const file = join(project.path, "program.mts")
  const text = `import type { ErrorOf, MusicClient } from "music-client"
    declare const version: Awaited<ReturnType<MusicClient["version"]>>
    if (!version.ok) version.error.code
    declare const failed: ErrorOf<"transport_failed">
    failed.details.reason`
  const readFile = (name: string) => (name === file ? text : ts.sys.readFile(name))
  const service = ts.createLanguageService({
    readFile,
    fileExists: (name) => ts.sys.fileExists(name),
    getCurrentDirectory: () => project.path,
    getScriptFileNames: () => [file],
    getScriptVersion: () => "1",
    getScriptSnapshot: (name) => ts.ScriptSnapshot.fromString(readFile(name) ?? ""),
    getCompilationSettings: () => ({ module: ts.ModuleKind.NodeNext, strict: true, types: [] }),
    getDefaultLibFileName: ts.getDefaultLibFilePath
  })
  const shown = [...text.matchAll(/\.(?:code|reason)$/gm)].map(({ index }) => {
    const found = service.getQuickInfoAtPosition(file, index + 1)
    return ts.displayPartsToString(found?.documentation)
  })
  const [code = "", reason = ""] = shown
  for (const name of ["rate_limited", "shutting_down"] as const)
    expect(code).toContain(failureTable[name].message)
  expect(code).not.toContain(failureTable.reports_full.message)
  for (const { message } of Object.values(reasonTable.transport_failed)) expect(reason).toContain(message)
  project.remove()
})

it("The Effect program of docs/client.md type-checks", async () => {
  const page = await readFile(join(root, "docs/client.md"), "utf8")
  const [, block = ""] = /```ts\n([\s\S]*?)```/.exec(page) ?? []
  const program = `import * as Effect from "effect/Effect"
    import * as Layer from "effect/Layer"
    import { memorySessionStore } from "music-client"
    const [baseUrl, sessionStore] = ["https://music.example", memorySessionStore()] as const
    ${block}
    export const provided: Effect.Effect<unknown, unknown> = program.pipe(Effect.provide(MusicLive))`
  const options = { ...nodenext, types: ["node"] }
  expect(block).toContain("catchTag")
  expect(await check(program, ["mts"], ["effect", "@effect", "@types"], options)).toBe("")
})

it("The example daemon type-checks beside its own effect", async () => {
  const daemon = await readFile(join(root, "examples/effect-daemon.ts"), "utf8")
  // A line that is wrong shows that the types of the client are known.
  const program = `${daemon}\n// @ts-expect-error no such tag\nEffect.catchTag(fireTrigger(""), "NoSuchTag", () => Effect.void)\n`
  const options = { ...nodenext, ...exact, types: ["node"] }
  const errors = await check(program, ["mts", "cts"], ["effect", "@effect", "@types"], options)
  // The platform package for Node has declarations that need others; only ours and Effect's are checked.
  const own = errors.split("\n").filter((line) => !line.startsWith("node_modules/@effect/platform-node"))
  expect(own).toEqual([""])
})
