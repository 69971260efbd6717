/** The sandbox as a person uses it: with the console, and a documentation page with live values. */
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as FiberRef from "effect/FiberRef"
import type * as LogLevel from "effect/LogLevel"
import * as Scope from "effect/Scope"
import { openConsole } from "./console/Console.ts"
import { tracesPath } from "./console/ConsoleRoutes.ts"
import { listenOnLoopback } from "./console/LoopbackServer.ts"
import { loadPage } from "./ConsolePage.ts"
import { startSandbox } from "./Run.ts"

/** Ends all that a failed start began. The library keeps the logger of a layer that has ended: with the next one, every line came twice. */
const endedOnFailure = <A, E, R>(start: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const loggers = yield* FiberRef.get(FiberRef.currentLoggers)
    const scope = yield* Scope.fork(yield* Effect.scope, ExecutionStrategy.sequential)
    return yield* Scope.extend(start, scope).pipe(
      Effect.onError((cause) =>
        Effect.zipRight(
          Scope.close(scope, Exit.failCause(cause)),
          FiberRef.set(FiberRef.currentLoggers, loggers)
        )
      )
    )
  })

/** `port` is the service's; when it is taken, any free one. All of it ends with the scope. */
export const startSandboxWithConsole = (options: {
  readonly port: number
  readonly logLevel: LogLevel.LogLevel
  /** Replaces the console's socket, for tests that cut it. */
  readonly listen?: typeof listenOnLoopback
}) =>
  Effect.gen(function* () {
    const listener = yield* options.listen ?? listenOnLoopback
    const page = yield* Effect.promise(loadPage)
    // Milliseconds between two exports of spans: a person waits for the arrows that they explain.
    process.env.OTEL_BSP_SCHEDULE_DELAY ??= "250"
    const start = (port: number) =>
      endedOnFailure(
        startSandbox({
          port,
          logLevel: options.logLevel,
          tracesUrl: `${listener.url}${tracesPath}`,
          hasLiveDocs: true
        })
      )
    const sandbox = yield* start(options.port).pipe(
      // Also a port that was free may be taken meanwhile.
      Effect.catchTag("ListenFailed", () =>
        Effect.retry(start(0), { times: 3, while: ({ _tag }) => _tag === "ListenFailed" })
      )
    )
    yield* openConsole(listener, sandbox, page)
    return { ...sandbox, consoleUrl: listener.url }
  })
