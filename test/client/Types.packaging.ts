/** The declarations of the package, in projects that have nothing else installed, and beside a program's own effect. */
import { execFile } from "node:child_process"
import { cp, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { root } from "../world/Fleet.ts"
import { type Built, buildClient, makeConsumer } from "./support/Built.ts"

let built: Built
beforeAll(async () => {
  built = await buildClient({ types: true })
})
afterAll(() => built.remove())

const compiler = join(root, "node_modules/typescript/bin/tsc")

/** Type-checks files of a separate project, including the declarations of its libraries; resolves to the errors. */
const check = async (project: Built, files: ReadonlyArray<string>, options: object): Promise<string> => {
  const compilerOptions = {
    strict: true,
    skipLibCheck: false,
    target: "es2022",
    lib: ["es2022", "dom"],
    types: [],
    noEmit: true,
    ...options
  }
  const config = join(project.folder, "tsconfig.json")
  await writeFile(config, JSON.stringify({ compilerOptions, files }))
  return new Promise((resolve) => {
    execFile(process.execPath, [compiler, "-p", config], (_, out, err) => resolve(out + err))
  })
}

const promiseProgram = `
import { createMusicClient, hasCode, type Result, webSessionStore } from "music-client"
import { fileSessionStore } from "music-client/node"

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
  const sent: Result<{ readonly replayed: boolean }> = await client.ting({ type: "t", key: "k", data: {} })
  void sent
  // @ts-expect-error the organisation and the recipient come from the session
  await client.ting({ type: "t", key: "k", data: {}, for: "si:deejay" })
  // @ts-expect-error no such source
  createMusicClient({ baseUrl: "https://music.example", source: "tv", telemetry: true })
  createMusicClient({
    baseUrl: "https://music.example", source: "cli", telemetry: false,
    sessionStore: fileSessionStore({ directory: "music" })
  })
}
`

const effectProgram = `
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { MusicClient } from "music-client/effect"

const layer = MusicClient.layer({ baseUrl: "https://music.example", source: "daemon", telemetry: true }).pipe(
  Layer.provide(FetchHttpClient.layer)
)
const program = Effect.gen(function* () {
  const client = yield* MusicClient
  const { actor } = yield* client.me()
  // @ts-expect-error no such field
  void actor.no_such_field
  return actor.public_id
}).pipe(Effect.catchTag("LoggedOut", () => Effect.succeed("nobody")))

export const main = (): Promise<string> => Effect.runPromise(program.pipe(Effect.provide(layer)))
`

/** How programs are compiled: the ending of a file selects its module format. */
const settings = [
  ["ES modules and CommonJS, nodenext", ["mts", "cts"], { module: "nodenext" }],
  ["CommonJS, node16", ["cts"], { module: "node16" }],
  ["a bundler", ["ts"], { module: "esnext", moduleResolution: "bundler" }]
] as const
const old = [
  "a resolver without exports",
  ["ts"],
  { module: "commonjs", moduleResolution: "node10" }
] as const

const checkProgram = async (
  program: string,
  endings: ReadonlyArray<string>,
  options: object,
  installed: ReadonlyArray<string>
): Promise<void> => {
  const project = await makeConsumer(built, installed)
  const files = endings.map((ending) => `program.${ending}`)
  for (const file of files) await writeFile(join(project.folder, file), program)
  for (const exactOptionalPropertyTypes of [true, false])
    expect(await check(project, files, { ...options, exactOptionalPropertyTypes })).toBe("")
  await project.remove()
}

describe("A consumer's project with nothing else installed", () => {
  it.concurrent.each([...settings, old])("type-checks %s", (_, endings, options) =>
    checkProgram(promiseProgram, endings, options, [])
  )

  it("fails the check for a wrong program", async () => {
    const project = await makeConsumer(built, [])
    await writeFile(join(project.folder, "wrong.cts"), `import { noSuchName } from "music-client"\n`)
    expect(await check(project, ["wrong.cts"], { module: "nodenext" })).toContain("noSuchName")
    await project.remove()
  })
})

describe("A Node project without the types of browsers", () => {
  it("type-checks", async () => {
    const project = await makeConsumer(built, ["@types", "undici-types"])
    await writeFile(join(project.folder, "program.mts"), promiseProgram)
    const options = { module: "nodenext", lib: ["es2022"], types: ["node"] }
    expect(await check(project, ["program.mts"], options)).toBe("")
    await project.remove()
  })
})

describe("A consumer's project with its own effect", () => {
  it.concurrent.each(settings)("type-checks %s", (_, endings, options) =>
    checkProgram(effectProgram, endings, options, ["effect", "@effect/platform"])
  )

  it("type-checks the example daemon", async () => {
    const project = await makeConsumer(built, ["effect", "@effect", "@types"])
    await cp(join(root, "examples/effect-daemon.ts"), join(project.folder, "daemon.ts"))
    const errors = await check(project, ["daemon.ts"], { module: "nodenext", types: ["node"] })
    // The platform package for Node has declarations that need others; only ours and Effect's are checked.
    expect(
      errors.split("\n").filter((line) => !line.startsWith("node_modules/@effect/platform-node"))
    ).toEqual([""])
    await project.remove()
  })
})
