/** The server as a process of its own, bundled once per test runner process, over simulated upstreams in this process. */
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { connect, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { build } from "esbuild"
import { beforeAll } from "vitest"
import {
  startUpstreams,
  upstreamEnvironment,
  type SimulatedUpstreams
} from "../../sandbox/SimulatedUpstreams.ts"
import { type Running, root, start } from "../support/Process.ts"

/** Not the bundle in `dist`, which other tests build at the same time. */
const makeBundle = async (): Promise<Uint8Array> => {
  const { outputFiles } = await build({
    entryPoints: [join(root, "src/main.ts")],
    write: false,
    bundle: true,
    minifyWhitespace: true,
    minifySyntax: true,
    platform: "node",
    target: "node20",
    format: "esm",
    external: ["better-sqlite3", "pg-native"],
    banner: {
      js: 'import { createRequire as __createRequire } from "node:module"\nconst require = __createRequire(import.meta.url)'
    },
    logLevel: "error"
  })
  return outputFiles[0]?.contents ?? new Uint8Array()
}

let bundle: Promise<Uint8Array> | undefined

/** The server's file in this test file. */
let file = ""

/** Writes the server into a temporary folder before the tests of a file, and removes it after them. */
export const bundleBefore = () =>
  beforeAll(async () => {
    bundle ??= makeBundle()
    const folder = mkdtempSync(join(tmpdir(), "music-bundle-"))
    file = join(folder, "main.mjs")
    symlinkSync(join(root, "node_modules"), join(folder, "node_modules"))
    writeFileSync(file, await bundle)
    return () => rmSync(folder, { recursive: true, force: true })
  })

/** Uses every part of the server: tracker, tables, own telemetry. Port 0: the system chooses a free one. */
export const environmentOf = (world: SimulatedUpstreams): Readonly<Record<string, string>> => ({
  MUSIC_BIND: "127.0.0.1:0",
  ...upstreamEnvironment(world),
  MUSIC_FRONTEND_ANALYTICS_TABLE_KEY: "",
  MUSIC_FRONTEND_EVENTS_TABLE_KEY: "",
  MUSIC_TRACKER_RECONCILE_SECONDS: "1",
  MUSIC_LOG_FORMAT: "json"
})

export const killedWithScope = (run: () => Running) =>
  Effect.acquireRelease(Effect.sync(run), ({ child, ended }) =>
    Effect.promise(() => {
      child.kill("SIGKILL")
      return ended
    })
  )

/** Starts the server like an operator. `shell` runs before, for example to set a limit. Killed with the scope. */
export const startProcess = (environment: Readonly<Record<string, string>>, shell = "") =>
  killedWithScope(() => start("sh", ["-c", `${shell} exec "$@"`, "sh", process.execPath, file], environment))

/** The log line of a server that listens; the group is its URL. */
const listening = /"Listening".*?"url":"(http:[^"]+)"/

export interface Served {
  readonly world: SimulatedUpstreams
  readonly base: string
  readonly port: number
  readonly server: Running
}

/** A server that listens, with a world of its own by default. */
export const serve = (
  environment: Readonly<Record<string, string>>,
  options: { readonly world?: SimulatedUpstreams; readonly shell?: string } = {}
) =>
  Effect.gen(function* () {
    const world = options.world ?? (yield* startUpstreams(() => Date.now()))
    const server = yield* startProcess({ ...environmentOf(world), ...environment }, options.shell)
    const [, base = ""] = yield* Effect.promise(() => server.says(listening))
    const served: Served = { world, base, port: Number(new URL(base).port), server }
    return served
  })

/** The URL of the metrics of a server whose settings have an MUSIC_ADMIN_BIND. */
export const metricsUrl = ({ server }: Pick<Served, "server">) =>
  Effect.map(
    Effect.promise(() => server.says(/"Metrics served".*?"url":"(http:[^"]+)"/)),
    ([, url = ""]) => url
  )

/** A server that must not start. The output is without the log records before its error. */
export const refuse = (environment: Readonly<Record<string, string>>, shell = "") =>
  Effect.gen(function* () {
    const world = yield* startUpstreams(() => Date.now())
    const { ended, output } = yield* startProcess({ ...environmentOf(world), ...environment }, shell)
    const { code } = yield* Effect.promise(() => ended)
    return { code, output: output().replaceAll(/^\{.*\}\n/gm, "") }
  })

/** Stops the server with SIGTERM. Returns its exit code and the milliseconds it took. */
export const stop = ({ child, ended }: Running, signal: NodeJS.Signals = "SIGTERM") =>
  Effect.promise(async () => {
    const startedAt = performance.now()
    child.kill(signal)
    const { code } = await ended
    return { code, took: performance.now() - startedAt }
  })

/** A raw connection; closed with the scope. */
export const connection = (port: number) =>
  Effect.acquireRelease(
    Effect.promise(
      () =>
        new Promise<{ readonly socket: Socket; readonly text: () => string }>((resolve, reject) => {
          let text = ""
          const socket = connect(port, "127.0.0.1", () => {
            socket.off("error", reject)
            socket.on("error", () => undefined)
            resolve({ socket, text: () => text })
          })
          socket.on("error", reject)
          socket.on("data", (part) => {
            text += part.toString()
          })
        })
    ),
    ({ socket }) => Effect.sync(() => socket.destroy())
  )
