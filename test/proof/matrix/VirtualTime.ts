/**
 * The clock of the matrix. Time moves only when nothing else can happen: every call to an upstream has ended or is withheld by a fault, and
 * every runnable fiber waits. So a timeout of 25 s takes milliseconds, and no verdict depends on the machine's speed.
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { makeManualClock } from "../../support/ManualClock.ts"

/** In these turns of the event loop every runnable fiber reaches its next wait. */
const turnsToSettle = 24
/** Real milliseconds after which a step that does not settle is a hang of the test itself. */
const patience = 120_000

const turn = () => new Promise<void>((wake) => setImmediate(wake))

export const makeVirtualTime = (startAt: number) => {
  const { clock, dueTimes, now, setTime } = makeManualClock(startAt)

  /** Until only time can change something. `isBusy` says whether a call is on its way. */
  const settle = async (isBusy: () => boolean): Promise<void> => {
    const end = performance.now() + patience
    for (let quiet = 0; quiet < turnsToSettle; quiet += 1) {
      await turn()
      if (!isBusy()) continue
      if (performance.now() > end) throw new Error("a call to an upstream neither ends nor is withheld")
      quiet = -1
    }
  }

  /** Moves time to the end, from one due time to the next. */
  const pass = async (millis: number, isBusy: () => boolean): Promise<void> => {
    const end = now() + millis
    await settle(isBusy)
    while (now() < end) {
      setTime(Math.min(end, ...dueTimes()))
      await settle(isBusy)
    }
  }

  /** Runs the effect, and moves time whenever it waits for nothing else; for `most` milliseconds at most. */
  const passUntilDone = <A, E>(
    effect: Effect.Effect<A, E>,
    isBusy: () => boolean,
    most: number
  ): Effect.Effect<A, E> =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkDaemon(effect)
      const end = now() + most
      for (;;) {
        yield* Effect.promise(() => settle(isBusy))
        if (Option.isSome(yield* Fiber.poll(fiber))) return yield* Fiber.join(fiber)
        const due = Math.min(...dueTimes())
        if (due > end)
          return yield* Effect.dieMessage(
            `no answer within ${most} ms of the clock; ${dueTimes().length} sleeps`
          )
        setTime(due)
      }
    })

  return { clock, now, pass, passUntilDone, settle }
}

export type VirtualTime = ReturnType<typeof makeVirtualTime>
