import type { Server } from "node:http"
import type { Socket } from "node:net"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { Drain } from "../../services/Drain.ts"
import { Admission } from "./Admission.ts"
import { Work } from "./Work.ts"

/** Milliseconds of the wall clock between two looks for connections that have become idle. */
const sweepEvery = 50

/** How long requests that were cut off have to let go of what they hold. */
const afterCut = Duration.seconds(1)

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

/** Stops listening at once; done when the last connection is gone. */
const closed = (server: Server, closeSilent: () => void): Effect.Effect<void> =>
  Effect.async((resume) => {
    const sweep = () => {
      server.closeIdleConnections()
      closeSilent()
    }
    server.close(() => {
      clearInterval(timer)
      resume(Effect.void)
    })
    const timer = setInterval(sweep, sweepEvery)
    sweep()
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
        Effect.timeoutOption(grace)
      )
      if (finished._tag === "None") {
        yield* Effect.logWarning("Requests cut off at the end of the grace period")
        server.closeAllConnections()
        yield* admission.idle.pipe(Effect.interruptible, Effect.timeoutOption(afterCut))
      }
    })
  })
