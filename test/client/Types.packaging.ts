/** The declarations of the package, in projects that have nothing else installed, and beside a program's own effect. */
import { execFile } from "node:child_process"
import { readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import * as ts from "typescript"
import { afterAll, beforeAll, expect, it } from "vitest"
import { reasonTable } from "../../client/failures/ErrorTable.ts"
import { failureTable } from "../../src/schema/FailureTable.ts"
import { root } from "../world/Fleet.ts"
import { type Built, buildClient, makeConsumer } from "./support/Built.ts"

let built: Built
beforeAll(async () => {
  built = await buildClient({ types: true })
})
afterAll(() => built.remove())

/** Type-checks a program in a project of its own, including the declarations of its libraries; resolves to the errors. */
const check = async (
  program: string,
  endings: ReadonlyArray<string>,
  installed: ReadonlyArray<string>,
  given: object,
  compiler = "typescript/lib/tsc.js"
) => {
  const project = await makeConsumer(built, installed)
  const files = endings.map((ending) => `program.${ending}`)
  for (const file of files) await writeFile(join(project.path, file), program)
  const config = join(project.path, "tsconfig.json")
  const strict = { strict: true, skipLibCheck: false, noEmit: true }
  const compilerOptions = { ...strict, target: "es2022", lib: ["es2022", "dom"], types: [], ...given }
  await writeFile(config, JSON.stringify({ compilerOptions, files }))
  const errors = await new Promise<string>((resolve) => {
    execFile(process.execPath, [join(root, "node_modules", compiler), "-p", config], (_, out, err) =>
      resolve(out + err)
    )
  })
  project.remove()
  return errors
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
it.each<readonly [string, ReadonlyArray<string>, ReadonlyArray<string>, object]>([
  ["ES modules, CommonJS and exact types", ["mts", "cts"], [], { ...nodenext, ...exact }],
  ["a bundler", ["ts"], [], bundler],
  ["a resolver without exports", ["ts"], [], { module: "commonjs", moduleResolution: "node10" }],
  [
    "no types of browsers",
    ["mts"],
    ["@types", "undici-types"],
    { ...nodenext, lib: ["es2022"], types: ["node"] }
  ]
])("A project with %s type-checks", async (_, endings, installed, options) => {
  expect(await check(promiseProgram, endings, installed, options)).toBe("")
})

it("The oldest TypeScript that docs/client.md names checks programs of both module formats", async () => {
  const page = await readFile(join(root, "docs/client.md"), "utf8")
  const [, oldest] = /TypeScript (\d+\.\d+) or newer/.exec(page) ?? []
  // The same compiler under a name of its own, so that it does not take the place of `tsc`.
  const compiler = "@tsd/typescript/typescript/lib/tsc.js"
  const { version } = JSON.parse(
    await readFile(join(root, "node_modules/@tsd/typescript/package.json"), "utf8")
  )
  expect(version).toMatch(new RegExp(`^${oldest}\\.`))
  expect(await check(promiseProgram, ["mts", "cts"], [], nodenext, compiler)).toBe("")
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
