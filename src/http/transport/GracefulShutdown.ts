import type { Server } from "node:http"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { Drain } from "../../services/Drain.ts"
import { unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { RequestPlaces } from "../middleware/RequestPlaces.ts"
import type { Connections } from "./Connections.ts"

/** Milliseconds of Node's timers before the first sweep of idle connections, and between two sweeps. */
const sweepMillis = 50

/** The end of the grace period, kept for releasing cut requests, the last writes and closing the store. */
const reserve = Duration.millis(1_500)
/** How long requests that were cut off have to release what they hold. */
const releaseTime = Duration.millis(750)
/** Milliseconds that a request which is arriving when the drain begins has for its rest. */
const arrivalMillis = 5_000

const requestTime = (grace: Duration.Duration): Duration.Duration =>
  Duration.max(Duration.subtract(grace, reserve), Duration.times(grace, 0.5))

/**
 * Stops listening and waits for the last connection to close. Starts after one interval, because Node then closes idle
 * connections, also one with an arrived request that is still unread and must get its refusal.
 */
const stopListening = (server: Server, sweep: () => void): Effect.Effect<void> =>
  Effect.async((resume) => {
    let timer: NodeJS.Timeout | undefined
    const stop = () => {
      timer = setInterval(sweep, sweepMillis)
      server.close(() => {
        clearInterval(timer)
        resume(Effect.void)
      })
    }
    // On a busy machine a late timer would run before pending reads; setImmediate runs after them.
    timer = setTimeout(() => setImmediate(stop), sweepMillis)
    return Effect.sync(() => clearInterval(timer))
  })

/**
 * Makes the effect that shuts the server down: it refuses new requests, waits within the grace period for those in
 * flight, and then cuts every connection. Requests that do not arrive completely are cut earlier, because a server that
 * no longer listens does not check for late ones. Its waits are interruptible, because a finaliser would let none end.
 */
export const makeShutdown = (server: Server, connections: Connections, grace: Duration.Duration) =>
  Effect.gen(function* () {
    const { begin } = yield* Drain
    const places = yield* RequestPlaces
    const clock = yield* Effect.clock
    return Effect.gen(function* () {
      yield* begin
      const late = unsafeMonotonicMillis(clock) + arrivalMillis
      const sweep = () => {
        server.closeIdleConnections()
        connections.closeUnused(unsafeMonotonicMillis(clock) >= late)
      }
      const finished = yield* Effect.zipRight(stopListening(server, sweep), places.awaitNone).pipe(
        Effect.interruptible,
        Effect.timeoutOption(requestTime(grace))
      )
      if (Option.isSome(finished)) return
      yield* Effect.logWarning("Requests cut off towards the end of the grace period")
      server.closeAllConnections()
      yield* places.awaitNone.pipe(Effect.interruptible, Effect.timeoutOption(releaseTime))
    })
  })
