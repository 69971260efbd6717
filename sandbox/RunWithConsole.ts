/** The sandbox as a person uses it: with the console, and a documentation page with live values. */
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as FiberRef from "effect/FiberRef"
import * as Scope from "effect/Scope"
import { openConsole } from "./console/Console.ts"
import { listenOnLoopback } from "./console/Server.ts"
import { loadPage } from "./ConsolePage.ts"
import { type SandboxOptions, startSandbox } from "./Run.ts"

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

/**
 * `port` is the service's, and those of the console and of the upstreams follow it: each is the same at every start while it is free, and any
 * free one otherwise. With 0 all are free ones. All of it ends with the scope.
 */
export const startSandboxWithConsole = (
  options: Pick<SandboxOptions, "port" | "logLevel"> & {
    /** Replaces the console's socket, for tests that cut it. */
    readonly listen?: typeof listenOnLoopback
  }
) =>
  Effect.gen(function* () {
    const { listen = listenOnLoopback, logLevel, port } = options
    const after = (offset: number) => (port === 0 ? 0 : port + offset)
    const listener = yield* listen(after(1))
    const page = yield* Effect.promise(loadPage)
    const start = (chosen: number) =>
      endedOnFailure(startSandbox({ port: chosen, upstreamPort: after(2), logLevel, isShown: true }))
    const sandbox = yield* start(port).pipe(
      // Also a port that was free may be taken meanwhile.
      Effect.catchTag("ListenFailed", () =>
        Effect.retry(start(0), { times: 3, while: ({ _tag }) => _tag === "ListenFailed" })
      )
    )
    yield* openConsole(listener, sandbox, page)
    return { ...sandbox, consoleUrl: listener.url }
  })
