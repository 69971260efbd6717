/** Logout: revokes the session and clears it, or clears it first. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type { DeadlineOf } from "../calls/CallDeadline.ts"
import type { CallFailure, Calls } from "../calls/Calls.ts"
import { type Deadline, deadlineIn, leaveAt, within } from "../calls/Deadline.ts"
import type { ReportEvent } from "../Events.ts"
import type { MusicFailure, SessionFailure } from "../failures/Failures.ts"
import { deriveKey } from "../calls/IdempotencyKeys.ts"
import type { LogoutOptions } from "../Options.ts"
import { healedEvent, isCorrupt, type StoreFailed } from "./SessionRecord.ts"
import type { SessionSlot, SlotFailure } from "./SessionSlot.ts"
import type { StoredSession } from "../stores/SessionStore.ts"
import type { LogoutInfo } from "../Types.ts"

/** The longest waits of `logout({ forget: true })`, milliseconds. */
const forgetMilliseconds = { lock: 400, store: 300, revocation: 2_000 } as const

export type LogoutFailure = CallFailure<"logout"> | SessionFailure

export type Logout = (options?: LogoutOptions) => Effect.Effect<LogoutInfo, LogoutFailure>

/** The session to end; nothing when there is none that can be read. */
interface Found {
  readonly stored?: StoredSession
  readonly corrupt?: StoreFailed
}

export const makeLogout = (parts: {
  readonly calls: Calls
  readonly slot: SessionSlot
  readonly report: ReportEvent
  readonly deadlineOf: DeadlineOf
}): Logout => {
  const { calls, deadlineOf, report, slot } = parts

  const revoke = (stored: StoredSession, deadline: Deadline, once: boolean) =>
    Effect.flatMap(deriveKey("logout", stored.refresh_token), (key) =>
      calls.run("logout", {
        deadline,
        once,
        uncertain: true,
        idempotencyKey: key,
        payload: { token: stored.refresh_token }
      })
    )

  const loadForLogout = slot.load.pipe(
    Effect.map((stored): Found => ({ stored })),
    Effect.catchAll((failure): Effect.Effect<Found, SlotFailure> => {
      if (failure.code === "not_logged_in") return Effect.succeed({})
      return isCorrupt(failure) ? Effect.succeed({ corrupt: failure }) : Effect.fail(failure)
    })
  )

  const reportEnd = (revoked: boolean, corrupt: MusicFailure<"store_failed"> | undefined, had: boolean) =>
    Effect.sync((): LogoutInfo => {
      slot.noteEnd(undefined)
      if (corrupt !== undefined) report(healedEvent(corrupt))
      if (had) report({ type: "logged_out", reason: revoked ? "logout" : "forgotten", requestId: null })
      return { revoked, healed: corrupt !== undefined }
    })

  const revokeAndClear = (deadline: Deadline) =>
    slot.withLock(deadline)(
      Effect.gen(function* () {
        const { corrupt, stored } = yield* loadForLogout
        if (stored !== undefined) yield* revoke(stored, deadline, false)
        // The lock may have been broken during the call: the session of a later login stays.
        const now = yield* loadForLogout
        if (now.stored === undefined || now.stored.login_key === stored?.login_key) yield* slot.clear
        return yield* reportEnd(stored !== undefined, corrupt, stored !== undefined)
      })
    )

  /** Bounds the wait for a store that may never answer. */
  const withPatience = <A, E, R>(use: Effect.Effect<A, E, R>) =>
    Effect.flatMap(deadlineIn(forgetMilliseconds.store), (patience) => within(patience)(use))

  /** Clears whatever is stored. A session that cannot be read is removed all the same. */
  const clearNow = Effect.gen(function* () {
    const found = yield* withPatience(loadForLogout).pipe(
      Effect.catchAll((failure): Effect.Effect<Found, Exclude<SlotFailure, StoreFailed>> => {
        if (failure.code === "timed_out") return Effect.succeed({})
        return failure.code === "store_failed" ? Effect.succeed({ corrupt: failure }) : Effect.fail(failure)
      })
    )
    const cleared = yield* Effect.either(withPatience(slot.clear))
    return { ...found, cleared }
  })

  const isInTheWay = (failure: MusicFailure) =>
    failure.code === "timed_out" || failure.code === "store_failed"

  /** Clears again what a refresh of another program saved at the moment of the first clearing. */
  const clearAgain = ({ login_key }: StoredSession) => {
    const again = Effect.flatMap(slot.load, (now) =>
      now.login_key === login_key ? slot.clear : Effect.void
    ).pipe(withPatience, Effect.ignore)
    return Effect.flatMap(deadlineIn(forgetMilliseconds.lock), (patience) =>
      slot
        .withLock(patience)(again)
        .pipe(Effect.catchIf(isInTheWay, () => again))
    )
  }

  /**
   * Clears first. A held lock is not waited for: its holder finds the store cleared and saves nothing, or has saved when the
   * store is cleared again.
   */
  const forget = Effect.gen(function* () {
    const patience = yield* deadlineIn(forgetMilliseconds.lock)
    const { cleared, corrupt, isLocked, stored } = yield* slot
      .withLock(patience)(Effect.map(clearNow, (found) => ({ ...found, isLocked: true })))
      .pipe(
        Effect.catchIf(isInTheWay, () => Effect.map(clearNow, (found) => ({ ...found, isLocked: false })))
      )
    const deadline = yield* deadlineIn(forgetMilliseconds.revocation)
    const [revoked] = yield* Effect.all(
      stored === undefined
        ? [Effect.succeed(false), Effect.void]
        : [Effect.isSuccess(revoke(stored, deadline, true)), isLocked ? Effect.void : clearAgain(stored)],
      { concurrency: 2 }
    )
    if (Either.isRight(cleared)) return yield* reportEnd(revoked, corrupt, stored !== undefined)
    // Its tokens are worthless, but they are still there.
    if (revoked) yield* reportEnd(revoked, undefined, true)
    return yield* cleared.left
  })

  return (call) =>
    Effect.flatMap(deadlineOf(call), (deadline) =>
      leaveAt(deadline)(call?.forget === true ? forget : revokeAndClear(deadline))
    )
}
