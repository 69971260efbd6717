import type { Server } from "node:http"
import type { Socket } from "node:net"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { Drain } from "../../services/Drain.ts"
import { Admission } from "./Admission.ts"
import { Work } from "./Work.ts"

/** Milliseconds of the wall clock before the first look for idle connections, and between two. */
const sweepEvery = 50

/** What the end of the grace period is kept for: letting go of what was cut off, the last writes, closing the store. */
const reserve = Duration.millis(1_500)
/** How long requests that were cut off have to let go of what they hold. */
const afterCut = Duration.millis(750)

const forRequests = (grace: Duration.Duration): Duration.Duration =>
  Duration.max(Duration.subtract(grace, reserve), Duration.times(grace, 0.5))

/** Connections on which nothing was ever sent: Node counts them as busy, and would wait for them. */
const silentOn = (server: Server): (() => void) => {
  const silent = new Set<Socket>()
  server.on("connection", (socket) => {
    silent.add(socket)
    const forget = () => silent.delete(socket)
    socket.once("close", forget)
  })
  server.on("request", ({ socket }) => silent.delete(socket))
  return () => {
    for (const socket of silent) if (socket.bytesRead === 0) socket.destroy()
  }
}

/**
 * Stops listening; done when the last connection is gone. Not at once: Node then closes idle connections, also those on
 * which a request has arrived that nobody has read yet, and that deserves its refusal.
 */
const closed = (server: Server, closeSilent: () => void): Effect.Effect<void> =>
  Effect.async((resume) => {
    const sweep = () => {
      server.closeIdleConnections()
      closeSilent()
    }
    let timer: NodeJS.Timeout | undefined
    const stop = () => {
      timer = setInterval(sweep, sweepEvery)
      server.close(() => {
        clearInterval(timer)
        resume(Effect.void)
      })
      sweep()
    }
    // A timer that fires late, on a busy machine, would come before what there is to read.
    timer = setTimeout(() => setImmediate(stop), sweepEvery)
    return Effect.sync(() => clearInterval(timer))
  })

/**
 * Prepares a server for its end. Run at the close of its scope, the effect refuses new work, waits within the grace
 * period for what is in hand, and then cuts every connection.
 */
export const closingOf = (server: Server, grace: Duration.Duration) =>
  Effect.gen(function* () {
    const drain = yield* Drain
    const admission = yield* Admission
    const work = yield* Work
    const closeSilent = silentOn(server)
    return Effect.gen(function* () {
      yield* drain.begin
      const finished = yield* Effect.zipRight(closed(server, closeSilent), work.ended).pipe(
        // Finalisers are uninterruptible, and a timeout does not fire in what cannot be interrupted.
        Effect.interruptible,
        Effect.timeoutOption(forRequests(grace))
      )
      if (finished._tag === "None") {
        yield* Effect.logWarning("Requests cut off towards the end of the grace period")
        server.closeAllConnections()
        yield* admission.idle.pipe(Effect.interruptible, Effect.timeoutOption(afterCut))
      }
    })
  })
