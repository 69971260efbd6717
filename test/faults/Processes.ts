/** The server as a process of its own, bundled once a test file, over simulated upstreams in this process. */
import { mkdtempSync, rmSync, symlinkSync } from "node:fs"
import { connect, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { build } from "esbuild"
import {
  startUpstreams,
  type SimulatedUpstreams,
  upstreamEnvironment
} from "../../sandbox/SimulatedUpstreams.ts"
import { freePort, type Running, root, start } from "../support/Process.ts"

export interface Bundle {
  readonly file: string
  readonly remove: () => void
}

/** Not the operator's bundle in `dist`, which other tests build at the same time. */
export const bundleServer = async (): Promise<Bundle> => {
  const folder = mkdtempSync(join(tmpdir(), "music-bundle-"))
  const file = join(folder, "main.mjs")
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"))
  await build({
    entryPoints: [join(root, "src/main.ts")],
    outfile: file,
    bundle: true,
    platform: "node",
    target: "node20",
    format: "esm",
    external: ["better-sqlite3", "pg-native"],
    banner: {
      js: 'import { createRequire as __createRequire } from "node:module"\nconst require = __createRequire(import.meta.url)'
    },
    logLevel: "error"
  })
  return { file, remove: () => rmSync(folder, { recursive: true, force: true }) }
}

/** Every part of the server at work: tracker, tables, own telemetry. Seconds are short, so that nothing waits for long. */
export const environmentOf = (world: SimulatedUpstreams, port: number): Readonly<Record<string, string>> => ({
  MUSIC_BIND: `127.0.0.1:${port}`,
  ...upstreamEnvironment(world),
  MUSIC_FRONTEND_ANALYTICS_TABLE_KEY: "",
  MUSIC_FRONTEND_EVENTS_TABLE_KEY: "",
  MUSIC_TRACKER_RECONCILE_SECONDS: "1",
  MUSIC_REQUEST_DEADLINE_SECONDS: "1",
  MUSIC_SHUTDOWN_GRACE_SECONDS: "3",
  MUSIC_LOG_FORMAT: "json"
})

/** As an operator starts it; `shell` comes before, like a limit. What is still running at the end is killed. */
export const startProcess = (file: string, environment: Readonly<Record<string, string>>, shell = "") =>
  Effect.acquireRelease(
    Effect.sync(() => start("sh", ["-c", `${shell} exec "$@"`, "sh", process.execPath, file], environment)),
    ({ child, ended }) =>
      Effect.promise(() => {
        child.kill("SIGKILL")
        return ended
      })
  )

export interface Served {
  readonly world: SimulatedUpstreams
  readonly base: string
  readonly port: number
  readonly server: Running
}

/** A server that listens, with a world of its own unless one is given. */
export const serve = (
  file: string,
  environment: Readonly<Record<string, string>>,
  options: { readonly world?: SimulatedUpstreams; readonly shell?: string } = {}
) =>
  Effect.gen(function* () {
    const world = options.world ?? (yield* startUpstreams(() => Date.now()))
    const port = yield* Effect.promise(freePort)
    const server = yield* startProcess(file, { ...environmentOf(world, port), ...environment }, options.shell)
    yield* Effect.promise(() => server.says(/"Listening"/))
    const served: Served = { world, base: `http://127.0.0.1:${port}`, port, server }
    return served
  })

/** A server that must not start. */
export const refuse = (file: string, environment: Readonly<Record<string, string>>, shell = "") =>
  Effect.gen(function* () {
    const world = yield* startUpstreams(() => Date.now())
    const port = yield* Effect.promise(freePort)
    const { ended, output } = yield* startProcess(
      file,
      { ...environmentOf(world, port), ...environment },
      shell
    )
    const { code } = yield* Effect.promise(() => ended)
    return { code, output: output() }
  })

/** Ends the server as an operator does; tells its exit code and the milliseconds it took. */
export const stop = ({ child, ended }: Running, signal: NodeJS.Signals = "SIGTERM") =>
  Effect.promise(async () => {
    const startedAt = performance.now()
    child.kill(signal)
    const { code } = await ended
    return { code, took: performance.now() - startedAt }
  })

/** A connection on which a test writes as it likes; closed with the scope. */
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
