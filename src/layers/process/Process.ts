/** How a program of this package runs, writes, reports and ends: signals, exit codes, standard output, the log lines of the process. */
import { writeFileSync, writeSync } from "node:fs"
import { Socket } from "node:net"
import { constants } from "node:os"
import { format } from "node:util"
import { setFlagsFromString } from "node:v8"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { defaultTeardown } from "@effect/platform/Runtime"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Runtime from "effect/Runtime"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Str from "effect/String"
import { build, version } from "../../schema/Release.ts"
import { Drain } from "../../services/Drain.ts"
import { logLinesLost, recordNow } from "../../services/Metrics.ts"
import { Settings } from "../../services/Settings.ts"
import { StoreUnavailable } from "../../services/Store.ts"
import { processEnvironment, SettingsInvalid, unknownVariables } from "../settings/Settings.ts"

const endingSignals = ["SIGHUP", "SIGINT", "SIGTERM"] as const

/** A standard error that cannot be written changes nothing. */
const endWith = (code: number, lines: ReadonlyArray<string>): Effect.Effect<void> =>
  Effect.sync(() => {
    process.exitCode = code
    writeSync(2, lines.map((line) => `music-backend: ${line}\n`).join(""))
  }).pipe(Effect.catchAllDefect(() => Effect.void))

/** The first signal that comes from now on. Node does not end the process at a signal any more. */
const firstSignal = (): Promise<NodeJS.Signals> =>
  new Promise((resolve) => {
    for (const signal of endingSignals) process.on(signal, resolve)
  })

/** Declares that the program now runs until a signal, which is its regular end, with exit code 0. */
export const expectSignal: Effect.Effect<void> = Effect.sync(() => {
  process.exitCode = 0
})

/**
 * Runs a program, which the first SIGINT, SIGTERM or SIGHUP (the terminal was closed) interrupts: a server drains. Later signals do
 * nothing, because npm sends the first one twice; systemd and containers kill what does not end. The exit code is the one of shells.
 */
export const runMain = <A, E>(program: Effect.Effect<A, E>): void => {
  let ending: NodeJS.Signals | undefined
  void firstSignal().then((signal) => {
    ending = signal
    // The library does not listen for SIGHUP.
    if (signal === "SIGHUP") process.emit("SIGTERM", "SIGTERM")
  })
  NodeRuntime.runMain(program, {
    disableErrorReporting: true,
    disablePrettyLogger: true,
    teardown: (exit, end) =>
      defaultTeardown(exit, (code) => {
        // A signal ends what the last lines wait for.
        for (const signal of endingSignals) process.removeAllListeners(signal)
        if (ending !== undefined && process.exitCode === undefined && Exit.isInterrupted(exit))
          Effect.runSync(endWith(128 + constants.signals[ending], [`interrupted by ${ending}`]))
        // What fails while a server stops counts, although its signal is expected.
        end(Math.max(Number(process.exitCode ?? 0), code))
      })
  })
}

type StartupError = SettingsInvalid | StoreUnavailable | { readonly _tag: string; readonly reason: string }

/**
 * Says why the program did not start, a line for each problem, and sets the exit code (sysexits): 78 for settings, 69 for a database or a
 * port, 70 for a defect, which comes with its stack.
 */
export const reportStartupError = <A, R>(program: Effect.Effect<A, StartupError, R>) =>
  program.pipe(
    Effect.catchAll((error) => {
      if (error instanceof StoreUnavailable)
        return endWith(69, [`${error.summary}. ${Str.capitalize(error.fix)}.`])
      if (!(error instanceof SettingsInvalid)) return endWith(69, [error.reason])
      const lines = error.problems.map(({ name, problem }) => `${name}: ${problem}`)
      return endWith(78, lines)
    }),
    Effect.catchAllDefect((defect) => endWith(70, [`internal error: ${Cause.pretty(Cause.die(defect))}`]))
  )

/** Writes text that neither ends nor blocks the process. What standard output does not take is lost, and counted. */
const makeWrite = (stdout: NodeJS.WriteStream): ((text: string) => void) => {
  const lose = (text: string): void => recordNow(logLinesLost, text.split("\n").length - 1)
  // A failed write has its callback.
  stdout.on("error", () => undefined)
  if (stdout instanceof Socket)
    return (text) => {
      // 1 MiB waits for a reader that does not read.
      if (stdout.writableLength > 1_048_576) lose(text)
      else stdout.write(text, (error) => error && lose(text))
    }
  // Node's stream for a file ends with its first error; a disk may have room for the next line, which begins after a cut one.
  let start = ""
  return (text) => {
    try {
      writeFileSync(1, `${start}${text}`)
      start = ""
    } catch {
      lose(text)
      start = "\n"
    }
  }
}

/** Runs a program whose log goes to standard output. The end waits for the last line, for 500 ms at most. */
export const withStandardOutput = <A, E, R>(program: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.consoleWith((console) => {
    const { unsafe } = console
    const write = makeWrite(process.stdout)
    const log = (...parts: ReadonlyArray<unknown>) => write(`${format(...parts)}\n`)
    const taken = Effect.sync(() => process.stdout.writableLength).pipe(
      Effect.repeat({ schedule: Schedule.spaced("20 millis"), until: (waiting) => waiting === 0 }),
      Effect.interruptible,
      Effect.timeoutOption("500 millis")
    )
    return Effect.withConsole(Effect.ensuring(program, taken), { ...console, unsafe: { ...unsafe, log } })
  })

/**
 * Logs `Starting` now, `Stopping` at the first signal, and `Stopped` with the scope, as the last line. An uncaught exception is logged with
 * its stack; Node still prints it on standard error and ends the process with 1.
 */
export const reportLifecycle = Effect.gen(function* () {
  const { shutdownGraceSeconds, tables, tracker, trustedProxies } = yield* Settings
  const runSync = Runtime.runSync(yield* Effect.runtime<never>())
  // The heap grows to 1.6 times what the last full collection left, instead of up to four times.
  setFlagsFromString("--heap-growing-percent=60")
  process.on("uncaughtExceptionMonitor", (error, origin) => {
    runSync(Effect.logFatal("Uncaught exception", { origin }, Cause.die(error)))
  })
  // What tells one instance from another; `music-backend config` shows the rest.
  yield* Effect.logInfo("Starting", {
    version,
    build,
    pid: process.pid,
    trusted_proxies: trustedProxies,
    tables: Option.toArray(tables).flatMap(({ keys }) => [...keys.keys()]),
    tracker: Option.isSome(tracker) ? `${tracker.value.owner}/${tracker.value.repository}` : "off"
  })
  for (const name of unknownVariables(processEnvironment))
    yield* Effect.logWarning(`${name} is not a setting`, { advice: "correct its name, or remove it" })

  // The clock of the process, which tests do not move.
  let stoppingAt: number | undefined
  void firstSignal().then((signal) => {
    stoppingAt = performance.now()
    runSync(Effect.logInfo("Stopping", { signal, grace_seconds: shutdownGraceSeconds }))
  })
  yield* Effect.addFinalizer(() => {
    if (stoppingAt === undefined) return Effect.void
    const duration_ms = Math.round(performance.now() - stoppingAt)
    return Effect.logInfo("Stopped", { duration_ms })
  })
})

/**
 * Stops the work of a layer as soon as the drain begins, concurrently with the last requests, so that both fit into one
 * grace period. The services of the layer stay usable until the end.
 */
export const stopOnDrain = <A, E, R>(layer: Layer.Layer<A, E, R>): Layer.Layer<A, E, R | Drain> =>
  Layer.scopedContext(
    Effect.gen(function* () {
      const { begun } = yield* Drain
      const scope = yield* Effect.acquireRelease(Scope.make(), (made, exit) => Scope.close(made, exit))
      // The end of this fiber is awaited: the dependencies of the layer close after it.
      yield* Effect.forkScoped(Effect.zipRight(begun, Effect.uninterruptible(Scope.close(scope, Exit.void))))
      return yield* Layer.buildWithScope(layer, scope)
    })
  )
