import type { Server } from "node:http"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { ShuttingDown } from "../../schema/Failure.ts"
import { Drain } from "../../services/Drain.ts"
import { Admission } from "../middleware/Admission.ts"
import type { Connections } from "./Connections.ts"
import { IncomingBodies } from "../body/IncomingBodies.ts"
import { DetachedWork } from "../../services/DetachedWork.ts"

/** Milliseconds of the wall clock before the first look for idle connections, and between two. */
const sweepEvery = 50

/** What the end of the grace period is kept for: letting go of what was cut off, the last writes, closing the store. */
const reserve = Duration.millis(1_500)
/** How long requests that were cut off have to let go of what they hold. */
const afterCut = Duration.millis(750)

const forRequests = (grace: Duration.Duration): Duration.Duration =>
  Duration.max(Duration.subtract(grace, reserve), Duration.times(grace, 0.5))

/** How long a request that is being written when the end begins has for the rest of its head, and of its body. */
const forHeads = Duration.seconds(1)
const forBodies = Duration.seconds(5)

/**
 * Stops listening; done when the last connection is gone. Not at once: Node then closes idle connections, also those on
 * which a request has arrived that nobody has read yet, and that deserves its refusal.
 */
const closed = (server: Server, sweep: () => void): Effect.Effect<void> =>
  Effect.async((resume) => {
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
 * period for what is in hand, and then cuts every connection. It does not wait for those who never finish a request: a
 * closed server no longer looks for late ones.
 */
export const closingOf = (server: Server, connections: Connections, grace: Duration.Duration) =>
  Effect.gen(function* () {
    const drain = yield* Drain
    const admission = yield* Admission
    const receipts = yield* IncomingBodies
    const work = yield* DetachedWork
    return Effect.gen(function* () {
      yield* drain.begin
      let headsAreDue = false
      const sweep = () => {
        server.closeIdleConnections()
        if (headsAreDue) connections.closeFree()
        else connections.closeSilent()
      }
      const impatience = Effect.gen(function* () {
        yield* Effect.sleep(forHeads)
        headsAreDue = true
        yield* Effect.sleep(Duration.subtract(forBodies, forHeads))
        yield* receipts.cutAll(new ShuttingDown())
        return yield* Effect.never
      })
      const finished = yield* Effect.zipRight(closed(server, sweep), work.ended).pipe(
        Effect.raceFirst(impatience),
        // Finalisers are uninterruptible, and a timeout does not fire in what cannot be interrupted.
        Effect.interruptible,
        Effect.timeoutOption(forRequests(grace))
      )
      if (finished._tag === "None") {
        const requests = connections.inHand()
        yield* Effect.logWarning("Requests cut off towards the end of the grace period", { requests })
        connections.closeAll()
        yield* admission.idle.pipe(Effect.interruptible, Effect.timeoutOption(afterCut))
      }
    })
  })
