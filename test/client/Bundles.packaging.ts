/** The client as it is shipped: in bundles of its users, required by CommonJS, and in the examples. */
import { execFile } from "node:child_process"
import { cp, readdir, readFile, writeFile } from "node:fs/promises"
import { statSync } from "node:fs"
import { join } from "node:path"
import { gzipSync } from "node:zlib"
import { build } from "esbuild"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
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

/** A program in the project; the examples share one home, and so one session. */
const run = (words: ReadonlyArray<string>, environment: NodeJS.ProcessEnv = {}) =>
  new Promise<{ readonly code: unknown; readonly out: string; readonly err: string }>((resolve) => {
    const urls = { MUSIC_URL: `${bench.base}/examples`, SILICON_HOME: project.path }
    const env = { PATH: process.env.PATH, ...urls, ...environment }
    execFile(process.execPath, words, { cwd: project.path, env }, (error, out, err) =>
      resolve({ code: error === null ? 0 : (error.code ?? error.signal), out, err })
    )
  })

/** Most bytes, gzipped. */
it.each([
  ["createMusicClient", "", 20_000],
  ["createMusicClient, webSessionStore", "createTelemetry", 28_000],
  ["newIdempotencyKey, memorySessionStore, webSessionStore, hasCode, isMusicClientError", "", 6_000]
])("A page that uses %s %s loads at most %i bytes", async (names, telemetry, bound) => {
  const contents = `import { ${names} } from "music-client"
    import { ${telemetry} } from "music-client/telemetry"
    globalThis.used = [${names}, ${telemetry}]`
  const stdin = { contents, resolveDir: project.path }
  const { outputFiles } = await build({ stdin, bundle: true, minify: true, write: false, format: "esm" })
  expect(gzipSync(outputFiles[0]?.contents ?? "").length).toBeLessThanOrEqual(bound)
})

it("The package has at most 400 KB", async () => {
  const files = await readdir(built.path, { recursive: true, withFileTypes: true })
  const sizes = files.flatMap((file) =>
    file.isFile() ? [statSync(join(file.parentPath, file.name)).size] : []
  )
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(400_000)
})

it("A CommonJS program requires each entry point", async () => {
  await writeFile(
    join(project.path, "program.cjs"),
    `
    const { createMusicClient } = require("music-client")
    const { fileSessionStore } = require("music-client/node")
    const { createTelemetry } = require("music-client/telemetry")
    const { MusicClient } = require("music-client/effect")
    const { FetchHttpClient } = require("@effect/platform")
    const { Effect, Layer } = require("effect")
    const [, , baseUrl, slt] = process.argv
    const sessionStore = fileSessionStore({ directory: __dirname + "/commonjs" })
    const options = { baseUrl, source: "cli", telemetry: false, sessionStore }
    const layer = MusicClient.layer(options).pipe(Layer.provide(FetchHttpClient.layer))
    const me = Effect.flatMap(MusicClient, (client) => client.me()).pipe(Effect.provide(layer))
    const client = createMusicClient(options)
    if (!createTelemetry(client).record("musicclidaemon", {}).ok) process.exit(1)
    client.login(slt).then(() => Effect.runPromise(me)).then(({ actor }) => console.log(actor.public_id))`
  )
  const ended = await run(["program.cjs", `${bench.base}/commonjs`, bench.slt()])
  expect(ended).toEqual({ code: 0, err: "", out: "si:deejay\n" })
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

describe("The examples run unchanged", () => {
  const cli = (words: ReadonlyArray<string>, environment: NodeJS.ProcessEnv = {}) =>
    run(["examples/promise-cli.mjs", ...words], environment)
  const sessions = () => readdir(join(project.path, "music"))

  it("a command line logs in, and a daemon beside it works in the same session", async () => {
    const out = expect.stringContaining('"authenticated": false')
    expect(await cli(["status"])).toMatchObject({ code: 0, out })
    const err = expect.stringContaining("slt_rejected")
    expect(await cli(["login", "oac_refused"])).toMatchObject({ code: 1, err })
    expect(await cli(["dance"])).toMatchObject({ code: 2 })
    expect(await cli(["login", bench.slt()])).toMatchObject({ code: 0 })
    expect(await sessions()).toHaveLength(1)
    const environment = { MUSIC_DAEMON_TICKS: "2", MUSIC_DAEMON_PAUSE: "10 millis" }
    const daemon = () => run(["--import", "tsx", "examples/effect-daemon.ts"], environment)
    // The second is the first one after a restart; it sends other triggers.
    const lives = [await daemon(), await daemon()]
    expect(lives).toMatchObject([{ code: 0 }, { code: 0 }])
    const fired = lives.flatMap(({ out }) => [...out.matchAll(/trigger (\S+Z): (msg_\w+)(?! \(had)/g)])
    expect(new Set(fired.map(([, , id]) => id)).size).toBe(4)
    for (const [, due] of fired) expect(bench.tings(`si:deejay/daemon/${due}`)).toBe(1)
    expect(bench.attempts("examples", "/api/v1/telemetry")).toBeGreaterThan(0)
    expect(await cli(["logout"])).toMatchObject({ code: 0 })
  })
})
