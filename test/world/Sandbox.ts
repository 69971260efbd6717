/** The real server in this process and all simulators on loopback, by itself or as the sandbox; its log kept instead of printed. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { Effect, Layer, LogLevel } from "effect"
import { startSandbox } from "../../sandbox/Run.ts"
import { startSandboxWithConsole } from "../../sandbox/RunWithConsole.ts"
import { settingsFor } from "../../sandbox/SimulatedUpstreams.ts"
import { Listening, makeBackend, parts } from "../../src/Backend.ts"
import { Settings, type SettingsValues } from "../../src/services/Settings.ts"
import { upstreams } from "./Fleet.ts"
import { consoleInto } from "./InMemory.ts"

/** A console that records its output. */
export const keptConsole = () => {
  const lines: Array<string> = []
  return { lines, console: consoleInto((line) => void lines.push(line)) }
}

/** Keeps the log, everything at debug level; `log` holds one JSON text a line. */
const withLog = <A extends object, E, R>(start: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const { lines, console } = keptConsole()
    const sandbox = yield* Effect.withConsole(start, console)
    return { ...sandbox, log: lines }
  }).pipe(Effect.provide(NodeFileSystem.layer))

const common = { port: 0, logLevel: LogLevel.Debug }

export const startTestSandboxWith = (
  options: Omit<Parameters<typeof startSandbox>[0], "port" | "logLevel">
) => withLog(startSandbox({ ...common, ...options }))

export const startTestSandbox = startTestSandboxWith({})

export const startTestSandboxWithConsole = withLog(startSandboxWithConsole(common))

/** Listens until the scope closes, by default over the store of its settings; `log` holds one JSON text a line. */
export const startServer = (change: Partial<SettingsValues> = {}, store = parts.store) =>
  Effect.gen(function* () {
    const world = yield* upstreams
    const { console, lines } = keptConsole()
    const settings = {
      ...settingsFor(world, {
        bind: { host: "127.0.0.1", port: 0 },
        databasePath: "unused",
        logLevel: LogLevel.Info
      }),
      ...change
    }
    const backend = Layer.provide(makeBackend({ ...parts, store }), Layer.succeed(Settings, settings))
    const context = yield* Effect.withConsole(Layer.build(backend), console)
    const { url } = yield* Effect.provide(Listening, context)
    return { world, base: url, log: lines }
  })
