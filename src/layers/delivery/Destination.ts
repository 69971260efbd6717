/** How the tracker fares as a whole: one limit or one bad token concerns every report that waits. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import type { UpstreamFailure } from "../../services/Upstream.ts"
import { backoff } from "./Worker.ts"

/** Milliseconds between tries of a destination that an operator must repair. */
const stoppedPause = 5 * 60_000
const firstPause = 1_000
const longestPause = 5 * 60_000
/** Milliseconds between two writes, and writes in an hour: below GitHub's 500, which people's own writes count into (issue-tracker.md 3). */
const writeSpacing = 1_000
const hourlyWrites = 450
const hour = 60 * 60_000

/** Refusals of the destination, not of what was sent: credentials, permission, repository. */
export const isConfiguration = (failure: UpstreamFailure): boolean =>
  failure._tag === "Refused" &&
  ([401, 403, 404, 410].includes(failure.status) || (failure.status >= 300 && failure.status < 400))

export interface Destination {
  /** Notes a failure and tells for how many milliseconds everything pauses. */
  readonly failed: (failure: UpstreamFailure) => Effect.Effect<number>
  /** A look was answered: that tells nothing about the right to write. */
  readonly answered: Effect.Effect<void>
  /** A write was taken. */
  readonly accepted: Effect.Effect<void>
  /** Completes when no pause holds, and this hour has room for a write. */
  readonly open: Effect.Effect<void>
  /** Completes when the next write may go out. */
  readonly spaced: Effect.Effect<void>
  readonly wrote: (at: number) => Effect.Effect<void>
}

export const describe = (failure: UpstreamFailure): string =>
  failure._tag === "Refused" ? `refused: ${failure.status} ${failure.code}` : failure.reason

const noWrites: ReadonlyArray<number> = []

/** When the oldest of the last 450 writes is an hour old. */
const roomAt = (writes: ReadonlyArray<number>): number => (writes.at(-hourlyWrites) ?? -hour) + hour

export const makeDestination = (name: string): Effect.Effect<Destination> =>
  Effect.gen(function* () {
    const state = yield* Ref.make({ failures: 0, stopped: false, pausedUntil: 0, writes: noWrites })

    const failed = (failure: UpstreamFailure) =>
      Effect.gen(function* () {
        const { failures, stopped } = yield* Ref.get(state)
        const stops = isConfiguration(failure)
        const asked = failure.retryAfterSeconds
        const pause = stops
          ? stoppedPause
          : asked !== undefined
            ? Math.max(writeSpacing, asked * 1000)
            : yield* backoff(failures + 1, firstPause, longestPause)
        const now = yield* Clock.currentTimeMillis
        yield* Ref.update(state, (last) => ({
          ...last,
          failures: failures + 1,
          stopped: stopped || stops,
          pausedUntil: Math.max(last.pausedUntil, now + pause)
        }))
        const facts = {
          failure: describe(failure),
          pauseMillis: pause,
          ...(failure._tag === "Refused" && failure.requestId !== undefined
            ? { upstreamRequestId: failure.requestId }
            : {})
        }
        // A trouble that lasts is told once, not with every try.
        if (stops && !stopped)
          yield* Effect.logError(`${name} refuses our settings; what waits is kept`, facts)
        else if (!stops && failures === 0) yield* Effect.logWarning(`${name} is not available`, facts)
        else yield* Effect.logDebug(`${name} is still not available`, facts)
        return pause
      })

    const better = (writing: boolean) =>
      Effect.gen(function* () {
        const { failures, stopped } = yield* Ref.get(state)
        if (stopped && !writing) return
        yield* Ref.update(state, (last) => ({ ...last, failures: 0, stopped: false }))
        if (failures > 0) yield* Effect.logInfo(`${name} is available again`)
      })

    const until = (at: number) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => (at > now ? Effect.sleep(at - now) : Effect.void))

    return {
      failed,
      answered: better(false),
      accepted: better(true),
      open: Effect.flatMap(Ref.get(state), ({ pausedUntil, writes }) =>
        until(Math.max(pausedUntil, roomAt(writes)))
      ),
      spaced: Effect.flatMap(Ref.get(state), ({ writes }) => until((writes.at(-1) ?? -hour) + writeSpacing)),
      wrote: (at) =>
        Ref.update(state, (last) => ({ ...last, writes: [...last.writes.slice(1 - hourlyWrites), at] }))
    }
  })
