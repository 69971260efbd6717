/** The sandbox for end-to-end tests: the real server and all simulators on loopback, its log kept instead of printed. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as Effect from "effect/Effect"
import * as LogLevel from "effect/LogLevel"
import { startSandbox } from "../../sandbox/Run.ts"
import { startSandboxWithConsole } from "../../sandbox/RunWithConsole.ts"
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
