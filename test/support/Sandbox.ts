/** The sandbox for end-to-end tests: the real server and all simulators on loopback, its log kept instead of printed. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as LogLevel from "effect/LogLevel"
import { startSandbox } from "../../sandbox/Run.ts"

/** A console that records its output. */
export const keptConsole = () => {
  const lines: Array<string> = []
  const keep = (...parts: ReadonlyArray<unknown>) => {
    lines.push(parts.map(String).join(" "))
  }
  const silent = () => undefined
  const unsafe: Console.UnsafeConsole = {
    assert: silent,
    clear: silent,
    count: silent,
    countReset: silent,
    debug: keep,
    dir: keep,
    dirxml: keep,
    error: keep,
    group: silent,
    groupCollapsed: silent,
    groupEnd: silent,
    info: keep,
    log: keep,
    table: keep,
    time: silent,
    timeEnd: silent,
    timeLog: silent,
    trace: keep,
    warn: keep
  }
  const kept = (run: () => void) => Effect.sync(run)
  const console: Console.Console = {
    [Console.TypeId]: Console.TypeId,
    assert: () => Effect.void,
    clear: Effect.void,
    count: () => Effect.void,
    countReset: () => Effect.void,
    debug: (...parts) => kept(() => keep(...parts)),
    dir: (item) => kept(() => keep(item)),
    dirxml: (...parts) => kept(() => keep(...parts)),
    error: (...parts) => kept(() => keep(...parts)),
    group: () => Effect.void,
    groupEnd: Effect.void,
    info: (...parts) => kept(() => keep(...parts)),
    log: (...parts) => kept(() => keep(...parts)),
    table: (data) => kept(() => keep(data)),
    time: () => Effect.void,
    timeEnd: () => Effect.void,
    timeLog: () => Effect.void,
    trace: (...parts) => kept(() => keep(...parts)),
    warn: (...parts) => kept(() => keep(...parts)),
    unsafe
  }
  return { lines, console }
}

/** Everything at debug level; `log` holds one JSON text a line. */
export const startTestSandboxWith = (options: { readonly iamCallsPerMinute?: number }) =>
  Effect.gen(function* () {
    const { lines, console } = keptConsole()
    const sandbox = yield* Effect.withConsole(
      startSandbox({ port: 0, logLevel: LogLevel.Debug, ...options }),
      console
    )
    return { ...sandbox, log: lines }
  }).pipe(Effect.provide(NodeFileSystem.layer))

export const startTestSandbox = startTestSandboxWith({})
