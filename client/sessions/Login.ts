/** Login: exchanges a short-lived token for a session and stores it. */
import * as Effect from "effect/Effect"
import { isText, type WireLogin } from "../calls/Answers.ts"
import type { DeadlineOf } from "../calls/CallDeadline.ts"
import type { CallFailure, Calls } from "../calls/Calls.ts"
import { leaveAt } from "../calls/Deadline.ts"
import type { ReportEvent } from "../Events.ts"
import { invalidInput, type MusicFailure, type SessionFailure, withFacts } from "../failures/Failures.ts"
import { isSingleUse, loginKey } from "../calls/IdempotencyKeys.ts"
import type { LoginOptions } from "../Options.ts"
import { healedEvent, infoOf, isCorrupt } from "./SessionRecord.ts"
import type { SessionSlot, SlotFailure } from "./SessionSlot.ts"
import type { LoginInfo } from "../Types.ts"

export type LoginFailure = CallFailure<"login"> | SessionFailure

export type Login = (slt: string, options?: LoginOptions) => Effect.Effect<LoginInfo, LoginFailure>

const unsavedHint = (more: string) =>
  `The login succeeded, but its session could not be stored: make the store writable and log in with the same token${more} within 10 minutes.`

export const makeLogin = (parts: {
  readonly calls: Calls
  readonly slot: SessionSlot
  readonly report: ReportEvent
  readonly deadlineOf: DeadlineOf
}): Login => {
  const { calls, deadlineOf, report, slot } = parts

  // The lock comes first: a wait that ends without it has spent no token, and a received session is saved at once.
  return (slt, call) =>
    Effect.gen(function* () {
      const deadline = yield* deadlineOf(call)
      if (!isText(slt)) return yield* invalidInput("slt", "must be a text")
      const key = call?.idempotencyKey ?? (yield* loginKey(slt))
      let corrupt: MusicFailure<"store_failed"> | undefined
      let replaced: string | null = null
      // The session of this login may be stored already: a replay would return a pair that was rotated since.
      const findKnown = (load: SessionSlot["load"]) =>
        load.pipe(
          Effect.map((stored) => {
            // Another login may have replaced it.
            corrupt = undefined
            replaced = stored.refresh_token
            return stored.login_key === key ? stored : undefined
          }),
          Effect.catchAll((failure) => {
            if (failure.code !== "not_logged_in" && !isCorrupt(failure)) return Effect.fail(failure)
            corrupt = isCorrupt(failure) ? failure : undefined
            replaced = null
            return Effect.succeed(undefined)
          })
        )
      const before = yield* findKnown(slot.loadBy(deadline))
      if (before !== undefined) return { ...infoOf(before), ting: { ...before.ting }, healed: false }
      const sent = { at: 0 }
      const asked = calls.run("login", {
        deadline,
        sent,
        uncertain: true,
        idempotencyKey: key,
        isKeyRandom: call?.idempotencyKey === undefined && !isSingleUse(slt),
        payload: { slt }
      })
      const explainUnsaved = (failure: SlotFailure) => {
        if (failure.code !== "store_failed") return failure
        const again = call?.idempotencyKey !== undefined || isSingleUse(slt)
        return withFacts(failure, {
          hint: unsavedHint(again ? "" : ` and the idempotencyKey ${key}`),
          retryable: true
        })
      }
      const saved = (session: WireLogin) =>
        slot
          .save(session, { login_key: key, ting: session.ting }, sent.at, replaced)
          .pipe(Effect.mapError(explainUnsaved))
      const begun = Effect.uninterruptibleMask((restore) =>
        Effect.gen(function* () {
          const during = yield* findKnown(slot.loadBy(deadline))
          if (during !== undefined) return during
          const session = yield* Effect.flatMap(restore(asked), slot.check)
          // The lock may have been broken during the call: the store may hold a newer session. What was received has time to be
          // saved, also after the deadline.
          const after = yield* Effect.mapError(findKnown(slot.load), explainUnsaved)
          if (after !== undefined) return after
          const stored = yield* saved(session)
          slot.noteEnd(undefined)
          if (corrupt !== undefined) report(healedEvent(corrupt))
          report({ type: "logged_in", session: infoOf(stored) })
          return stored
        })
      )
      // The caller leaves at the deadline; a session that was received is saved all the same.
      const stored = yield* leaveAt(deadline)(slot.withLock(deadline)(begun))
      return { ...infoOf(stored), ting: { ...stored.ting }, healed: corrupt !== undefined }
    })
}
