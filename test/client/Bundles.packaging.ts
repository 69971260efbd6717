/** The client as it is shipped: in bundles of its users, in CommonJS, in programs that share a session, and in the examples. */
import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { cp, readdir, readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { createMusicClient } from "../../client/index.ts"
import { fileSessionStore } from "../../client/node.ts"
import { root } from "../world/Fleet.ts"
import { type Built, buildClient, makeConsumer, scratch } from "./support/Built.ts"
import { bundlers, consumerBundle, externalImports, gzippedSize } from "./support/ConsumerBundle.ts"
import { startFaultProxy } from "./support/FaultProxy.ts"
import { startTestBench, type TestBench } from "./support/TestBench.ts"

const program = fileURLToPath(new URL("programs/caller.mjs", import.meta.url))
const refresh = "/api/v1/auth/refresh"
const life = 1_800_000

/** Most bytes, gzipped, of the client in a page that keeps its session. */
const wholeClientBound = 80_000
/** The same for one function that needs no Effect. */
const oneFunctionBound = 5_000

let built: Built
let sessions: Built
let project: Built
let bench: TestBench
beforeAll(async () => {
  built = await buildClient({ types: false })
  sessions = await scratch()
  project = await makeConsumer(built, ["effect", "@effect", "tsx"])
  await cp(join(root, "examples"), join(project.folder, "examples"), { recursive: true })
  bench = await startTestBench({ thorough: false, page: true })
})
afterAll(async () => {
  await bench.close()
  await Promise.all([built, sessions, project].map(({ remove }) => remove()))
})

describe("The promise client", () => {
  it("imports no package", async () => {
    for (const name of ["index.js", "index.cjs"])
      expect(await externalImports(join(built.folder, name))).toEqual([])
  })

  it("has source maps with the sources", async () => {
    const files = (await readdir(built.folder, { recursive: true })).filter((name) =>
      /^(?!examples).*\.c?js$/.test(name)
    )
    expect(files.length).toBeGreaterThan(6)
    for (const name of files) {
      const text = await readFile(join(built.folder, name), "utf8")
      const [, map = ""] = /\n\/\/# sourceMappingURL=(.*)\n$/.exec(text) ?? []
      const { sources, sourcesContent } = JSON.parse(
        await readFile(join(built.folder, name, "..", map), "utf8")
      )
      expect(sources.filter((source: string) => !/^(?:client|src|node_modules)\//.test(source))).toEqual([])
      expect(sourcesContent.filter((source: unknown) => typeof source !== "string")).toEqual([])
    }
  })
})

describe.each(bundlers)("In a page that %s bundles", (bundler) => {
  it(`the client and a store take at most ${wholeClientBound} bytes, gzipped`, async () => {
    const names = ["createMusicClient", "webSessionStore"]
    const size = gzippedSize(await consumerBundle(bundler, project, names))
    expect(size).toBeLessThanOrEqual(wholeClientBound)
  })

  it.each(["newIdempotencyKey", "memorySessionStore", "webSessionStore", "hasCode", "isMusicClientError"])(
    "%s alone comes without the client",
    async (name) => {
      const size = gzippedSize(await consumerBundle(bundler, project, [name]))
      // A module is a chunk, so a module that imports Effect brings all of it.
      expect(size, `${name} is exported by a module that imports Effect`).toBeLessThanOrEqual(
        oneFunctionBound
      )
    }
  )
})

describe("A CommonJS program", () => {
  it("requires each entry point", async () => {
    const file = join(project.folder, "program.cjs")
    await writeFile(
      file,
      `
      const { createMusicClient, newIdempotencyKey } = require("music-client")
      const { fileSessionStore } = require("music-client/node")
      const { MusicClient } = require("music-client/effect")
      const resolved = ["music-client", "music-client/node", "music-client/effect"].map((name) => require.resolve(name))
      const { FetchHttpClient } = require("@effect/platform")
      const { Effect, Layer } = require("effect")
      const sessionStore = fileSessionStore({ directory: __dirname + "/commonjs" })
      const options = { baseUrl: ${JSON.stringify(`${bench.base}/commonjs`)}, source: "cli", telemetry: false, sessionStore }
      const layer = MusicClient.layer(options).pipe(Layer.provide(FetchHttpClient.layer))
      const main = async () => {
        const client = createMusicClient(options)
        const login = await client.login(${JSON.stringify(bench.commands.slt())})
        const me = await Effect.runPromise(
          Effect.flatMap(MusicClient, (client) => client.me()).pipe(Effect.provide(layer))
        )
        const { version } = require("music-client/package.json")
        process.stdout.write(JSON.stringify([login.ok, me.actor, newIdempotencyKey().length, version, resolved]))
      }
      main()`
    )
    const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8"))
    const actor = { type: "silicon", public_id: "si:deejay" }
    const resolved = ["index", "node", "effect"].map((name) =>
      join(project.folder, `node_modules/music-client/${name}.cjs`)
    )
    const ended = await run([file])
    expect(ended).toMatchObject({ code: 0, err: "" })
    expect(JSON.parse(ended.out)).toEqual([true, actor, 36, version, resolved])
  })
})

const call = async (task: object): Promise<string> => {
  const child = spawn(process.execPath, [program, JSON.stringify({ bundles: built.folder, ...task })], {
    stdio: ["ignore", "pipe", "inherit"]
  })
  let output = ""
  child.stdout.on("data", (chunk: Buffer) => {
    output += chunk.toString("utf8")
  })
  const [code, signal] = await once(child, "close")
  return code === 0 ? output : `${code ?? signal}`
}

/** A CLI that has logged in; its session is stored in a folder that others share. */
const loggedIn = async (lane: string) => {
  const directory = join(sessions.folder, lane)
  const baseUrl = `${bench.base}/${lane}`
  let token = ""
  const files = fileSessionStore({ directory })
  const sessionStore: typeof files = {
    ...files,
    save: (slot, session) => {
      token = session.refresh_token
      return files.save(slot, session)
    }
  }
  const client = createMusicClient({ baseUrl, source: "cli", telemetry: false, sessionStore })
  expect(await client.login(bench.commands.slt())).toMatchObject({ ok: true })
  return { client, directory, baseUrl, family: () => bench.commands.family(token) }
}

const allOk = JSON.stringify(Array.from({ length: 8 }, () => "ok"))

describe("Programs that share a session", () => {
  it("refresh it once together, and none is logged out", async () => {
    const { baseUrl, client, directory, family } = await loggedIn("shared")
    bench.commands.advance(life)
    const [mine, ...theirs] = await Promise.all([
      client.me(),
      call({ baseUrl, directory }),
      call({ baseUrl, directory }),
      call({ baseUrl, directory })
    ])
    expect(mine).toMatchObject({ ok: true })
    expect(theirs).toEqual([allOk, allOk, allOk])
    expect(bench.commands.attempts("shared", refresh)).toBe(1)
    expect(family()).toEqual({ status: "active", rotations: 1 })
  })

  it("recover when one is killed between the answer and the save: its lock is broken, and the answer is replayed", async () => {
    const { baseUrl, client, directory, family } = await loggedIn("killed")
    bench.commands.advance(life)
    expect(await call({ baseUrl, directory, die: true })).toBe("SIGKILL")
    expect(await client.me()).toMatchObject({ ok: true })
    expect(bench.commands.attempts("killed", refresh)).toBe(2)
    const keys = bench.commands.headers("killed", refresh, "idempotency-key")
    expect(new Set(keys).size).toBe(1)
    expect(family()).toEqual({ status: "active", rotations: 1 })
  })
})

interface Ended {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** Both share one home, and so one session. */
const run = (parameters: ReadonlyArray<string>, environment: NodeJS.ProcessEnv = {}) =>
  new Promise<Ended>((resolve) => {
    const env = {
      PATH: process.env.PATH,
      MUSIC_URL: `${bench.base}/examples`,
      SILICON_HOME: project.folder,
      ...environment
    }
    execFile(process.execPath, parameters, { cwd: project.folder, env }, (error, out, err) =>
      resolve({ code: typeof error?.code === "number" ? error.code : error === null ? 0 : -1, out, err })
    )
  })

const cli = (...words: ReadonlyArray<string>) => run(["examples/promise-cli.mjs", ...words])

describe("The first program of docs/client.md", () => {
  it("logs in and sends a ting", async () => {
    const text = await readFile(join(root, "docs/client.md"), "utf8")
    const [, program = ""] = /```js\n([\s\S]*?)```/.exec(text) ?? []
    await writeFile(join(project.folder, "first.mjs"), program)
    const ended = await run(["first.mjs", bench.commands.slt(), `${bench.base}/first`])
    expect(ended).toMatchObject({ code: 0, out: expect.stringMatching(/^sent si:deejay\//), err: "" })
  })
})

describe("The examples run unchanged", () => {
  it("a command line logs in, and a daemon beside it works in the same session", async () => {
    expect(await cli("status")).toMatchObject({
      code: 0,
      out: expect.stringContaining('"authenticated": false')
    })
    const refused = await cli("login", "oac_refused")
    expect(refused).toMatchObject({ code: 1, err: expect.stringContaining("slt_rejected") })
    expect(await cli("dance")).toMatchObject({ code: 2 })
    expect(await cli("login", bench.commands.slt())).toMatchObject({ code: 0 })
    expect(await readdir(join(project.folder, "music"))).toHaveLength(1)
    const environment = { MUSIC_DAEMON_TICKS: "2", MUSIC_DAEMON_PAUSE: "10 millis" }
    const daemon = () => run(["--import", "tsx", "examples/effect-daemon.ts"], environment)
    // The second is the first one after a restart; it sends other triggers.
    const lives = [await daemon(), await daemon()]
    expect(lives).toMatchObject([{ code: 0 }, { code: 0 }])
    const fired = lives.flatMap(({ out }) => [...out.matchAll(/trigger (\S+Z): (msg_\w+)(?! \(had)/g)])
    expect(fired).toHaveLength(4)
    for (const [, due] of fired) expect(bench.commands.tings(`si:deejay/daemon/${due}`)).toBe(1)
    expect(new Set(fired.map(([, , id]) => id)).size).toBe(4)
    expect(bench.commands.attempts("examples", "/api/v1/telemetry")).toBeGreaterThan(0)
    expect(await cli("logout")).toMatchObject({ code: 0 })
  })

  it("the command line distinguishes an outage from a logout by its exit code, and keeps the session", async () => {
    const gate = await startFaultProxy(bench.server)
    // A session belongs to its address, so the login uses the address that fails later.
    const at = (words: ReadonlyArray<string>, environment: NodeJS.ProcessEnv = {}) =>
      run(["examples/promise-cli.mjs", ...words], { MUSIC_URL: `${gate.url}/away`, ...environment })
    const folder = join(project.folder, "music")
    expect(await at(["login", bench.commands.slt()])).toMatchObject({ code: 0 })
    const kept = await readdir(folder)
    expect(kept).toHaveLength(1)
    const before = await readFile(join(folder, kept[0] ?? ""), "utf8")
    await gate.close()
    expect(await at(["status"], { MUSIC_PATIENCE: "300" })).toMatchObject({
      code: 5,
      out: "",
      err: expect.stringContaining("transport_failed")
    })
    expect(await readdir(folder)).toEqual(kept)
    expect(await readFile(join(folder, kept[0] ?? ""), "utf8")).toBe(before)
  })
})
