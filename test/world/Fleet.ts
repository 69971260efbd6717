/** Real servers as processes: bundled once, started, waited for, killed; their environment, their simulated upstreams, and calls to them. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process"
import { randomInt } from "node:crypto"
import { once } from "node:events"
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { basename, dirname, join } from "node:path"
import { setTimeout as pause } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { Effect, Exit, Scope } from "effect"
import * as esbuild from "esbuild"
import {
  type SimulatedUpstreams,
  startUpstreams,
  upstreamEnvironment
} from "../../sandbox/SimulatedUpstreams.ts"

export const root = fileURLToPath(new URL("../../", import.meta.url))
const main = join(root, "src/main.ts")
/** Runs a bundle (`boot.mjs bundle.cjs`). */
export const boot = fileURLToPath(new URL("./boot.mjs", import.meta.url))
const { resolve } = createRequire(import.meta.url)
const addon = resolve("better-sqlite3")
/** The script of the page of the documents. */
const scalar = join(dirname(resolve("@effect/platform/HttpApiScalar")), "internal/httpApiScalar.js")

export type Environment = Readonly<Record<string, string>>

/** A new folder, removed at the latest when this process ends. */
export const scratch = (): { readonly path: string; readonly remove: () => void } => {
  const path = mkdtempSync(join(tmpdir(), "music-fleet-"))
  const remove = () => {
    process.off("exit", remove)
    rmSync(path, { recursive: true, force: true })
  }
  process.once("exit", remove)
  return { path, remove }
}

/** Not the bundle in `dist`, which other tests build at the same time. */
const makeBundle = async (entry: string, from: string): Promise<string> => {
  const { outputFiles } = await esbuild.build({
    entryPoints: [entry],
    write: false,
    bundle: true,
    minifyWhitespace: true,
    minifySyntax: true,
    platform: "node",
    target: "node20",
    format: "cjs",
    legalComments: "none",
    // Loads the addon with require: in a script from cached code, import() never settles.
    supported: { "dynamic-import": false },
    define: { "import.meta.url": "__url" },
    banner: { js: 'const __url = require("node:url").pathToFileURL(__filename).href' },
    plugins: [
      {
        name: "parts",
        setup: (plugin) => {
          plugin.onResolve({ filter: /^(?:better-sqlite3|pg-native)$/ }, ({ path }) => ({
            path: path === "better-sqlite3" ? addon : path,
            external: true
          }))
          // Each process would read these 3 MB, which few show.
          plugin.onResolve({ filter: /\/internal\/httpApiScalar\.js$/ }, () => ({
            path: scalar,
            external: true
          }))
          // As scripts/build.mjs does: the rest takes a tenth of a start.
          plugin.onResolve({ filter: /^undici$/ }, () => ({ path: join(from, "scripts/undici.cjs") }))
        }
      }
    ],
    logLevel: "error"
  })
  return outputFiles[0]?.text ?? ""
}

/** Where bundles are: one folder for all workers of a test run, which its setup removes; else one of this process. */
let bundles = process.env.TEST_BUNDLES

/**
 * Bundles with the options of scripts/build.mjs into one CommonJS script beside its compiled code. The first caller of a run makes it,
 * and the others wait for it. `from` is the project of the entry. The compiled code of a server is that of a start.
 */
export const bundle = async (entry = main, from = root, isServer = entry === main): Promise<string> => {
  bundles ??= scratch().path
  const folder = join(bundles, basename(entry, ".ts"))
  const [file, made] = [join(folder, "bundle.cjs"), join(folder, "made")]
  try {
    mkdirSync(folder)
  } catch {
    await until(made, () => existsSync(made), { within: 240_000 })
    return file
  }
  writeFileSync(file, await makeBundle(entry, from))
  if (isServer) await warmUp(file, folder)
  writeFileSync(made, "")
  return file
}

/** The command line that `build` makes, below `root`. */
export const program = "dist/cli.js"
/** Builds the published programs, unless they are newer than their sources. */
export const build = () => {
  execFileSync(process.execPath, ["scripts/build.mjs", "--if-needed"], { cwd: root })
}

/** Caches the compiled code of a server that listens, which saves later ones a third of their start. */
const warmUp = async (file: string, folder: string): Promise<void> => {
  const world = await startSimulators()
  const server = startBundle(file, {
    ...environmentOf(world),
    MUSIC_DATABASE_PATH: join(folder, "music.sqlite")
  })
  await urlOf(server)
  server.child.send({ asks: "keep" })
  await server.ended
  await world.close()
}

/** The server of `bundleBefore`. */
let server = ""

/** For `beforeAll`. */
export const bundleBefore = async (): Promise<void> => {
  server = await bundle()
}

/** Starts a program; only what `environment` names is set, beside the path. With a channel it takes and sends messages. */
export const start = (
  command: string,
  parameters: ReadonlyArray<string>,
  environment: Environment,
  { channel = false } = {}
) => {
  const child: ChildProcess = spawn(command, parameters, {
    cwd: root,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...environment },
    stdio: ["ignore", "pipe", "pipe", ...(channel ? ["ipc" as const] : [])]
  })
  let text = ""
  const waiting = new Set<() => void>()
  const keep = (chunk: Buffer) => {
    text += chunk.toString("utf8")
    for (const check of waiting) check()
  }
  child.stdout?.on("data", keep)
  child.stderr?.on("data", keep)
  // "close" comes after the last output, "exit" may come before it.
  const ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }> = once(
    child,
    "close"
  ).then(([code, signal]) => ({ code, signal }))
  /** Resolves when the output matches; rejects when the process ends before. */
  const says = (pattern: RegExp) =>
    new Promise<RegExpExecArray>((resolve, reject) => {
      const check = () => {
        const found = pattern.exec(text)
        if (found === null) return
        waiting.delete(check)
        resolve(found)
      }
      waiting.add(check)
      check()
      void ended.then(() => reject(new Error(`ended before it said ${pattern}:\n${text}`)))
    })
  return { child, output: () => text, says, ended }
}
export type Running = ReturnType<typeof start>

/** Of Node. Parallel collection of garbage costs more than a short run gains. Cached code is used under the flags that compiled it only. */
const flags = ["--single-threaded-gc", "--max-semi-space-size=64"]

/** Starts a bundle with a channel; `more` are further flags. */
export const startBundle = (
  file: string,
  environment: Environment,
  more: ReadonlyArray<string> = []
): Running => start(process.execPath, [...flags, ...more, boot, file], environment, { channel: true })

/** What a process with a channel holds, as `boot.mjs` tells it (after a collection with `--expose-gc`), and what it has cost. */
export const watch = ({ child, ended, output }: Running) => ({
  holdings: async (): Promise<Readonly<Record<string, number>>> => {
    if (child.connected) child.send({ asks: "holdings" })
    const [held] = await Promise.race([once(child, "message"), ended.then(() => [])])
    if (held === undefined) throw new Error(`The server ended: ${output().slice(-2_000)}`)
    return held
  },
  /** Milliseconds of the processor so far. Linux counts them for programs in hundredths of a second. */
  cpuMillis: (): number => {
    const stat = readFileSync(`/proc/${child.pid}/stat`, "latin1")
      .replace(/^.*\) /, "")
      .split(" ")
    return (Number(stat[11]) + Number(stat[12])) * 10
  }
})

/** The log line of a server that listens, in either format; the group is its URL. */
const listening = /Listening[\s\S]*?\burl"?: ?["'](http:\/\/[^"']+)/
export const urlOf = async ({ says }: Running): Promise<string> => (await says(listening))[1] ?? ""

export const kill = ({ child, ended }: Running) => {
  child.kill("SIGKILL")
  return ended
}

/** The end of a program, and all that it said. */
export const ended = ({ ended: end, output }: Running) =>
  Effect.promise(async () => ({ code: (await end).code, output: output() }))

/** Below the ports that systems give to connections and to listeners on port 0, so that no other process gets it meanwhile. */
const reservable = { from: 10_000, to: 32_000 }

const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const listener = createServer()
    listener.once("error", () => resolve(false))
    listener.listen(port, "127.0.0.1", () => listener.close(() => resolve(true)))
  })

/** A port that is free now, for a server that cannot say which port it was given. */
export const freePort = async (): Promise<number> => {
  const port = randomInt(reservable.from, reservable.to)
  return (await isFree(port)) ? port : freePort()
}

export const upstreams = startUpstreams(() => Date.now())

/** The simulated upstreams in this process, without a scope. */
export const startSimulators = async () => {
  const scope = await Effect.runPromise(Scope.make())
  const world = await Effect.runPromise(Scope.extend(upstreams, scope))
  return { ...world, close: () => Effect.runPromise(Scope.close(scope, Exit.void)) }
}
export type Simulators = Awaited<ReturnType<typeof startSimulators>>

/** Every part of a server, on a port that the system chooses: tracker, and one table. */
export const environmentOf = (world: SimulatedUpstreams): Environment => ({
  MUSIC_BIND: "127.0.0.1:0",
  ...upstreamEnvironment(world),
  MUSIC_FRONTEND_ANALYTICS_TABLE_KEY: "",
  MUSIC_FRONTEND_EVENTS_TABLE_KEY: ""
})

export const killedWithScope = (run: () => Running) =>
  Effect.acquireRelease(Effect.sync(run), (running) => Effect.promise(() => kill(running)))

/** Starts the server of `bundleBefore` like an operator. `shell` runs before, for example to set a limit. Killed with the scope. */
export const startProcess = (environment: Environment, shell = "") =>
  killedWithScope(() =>
    start("sh", ["-c", `${shell} exec "$@"`, "sh", process.execPath, ...flags, boot, server], environment)
  )

/** A server that listens, with a world of its own by default. */
export const serve = (environment: Environment, given?: SimulatedUpstreams) =>
  Effect.gen(function* () {
    const world = given ?? (yield* upstreams)
    const running = yield* startProcess({ ...environmentOf(world), ...environment })
    const base = yield* Effect.promise(() => urlOf(running))
    return { world, base, port: Number(new URL(base).port), server: running }
  })
export type Served = Effect.Effect.Success<ReturnType<typeof serve>>

/** The URL of the metrics of a server whose settings have an MUSIC_ADMIN_BIND. */
export const metricsUrl = ({ server: { says } }: Pick<Served, "server">) =>
  Effect.map(
    Effect.promise(() => says(/"Metrics served".*?"url":"(http:[^"]+)"/)),
    ([, url = ""]) => url
  )

/** A server that must not start. The output is without the log records before its error. */
export const refuse = (environment: Environment, shell = "") =>
  Effect.gen(function* () {
    const world = yield* upstreams
    const running = yield* startProcess({ ...environmentOf(world), ...environment }, shell)
    const { code, output } = yield* ended(running)
    return { code, output: output.replaceAll(/^\{.*\}\n/gm, "") }
  })

/** Stops the server with SIGTERM. Returns its exit code and the milliseconds it took. */
export const stop = ({ child, ended }: Running) =>
  Effect.promise(async () => {
    const startedAt = performance.now()
    child.kill("SIGTERM")
    const { code } = await ended
    return { code, took: performance.now() - startedAt }
  })

/** Polls until the condition holds. The description is part of the error otherwise. */
export const until = async (
  description: string,
  holds: () => boolean | Promise<boolean>,
  { every = 20, within = 15_000 } = {}
): Promise<void> => {
  const end = performance.now() + within
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`not within ${within} ms: ${description}`)
    await pause(every)
  }
}
