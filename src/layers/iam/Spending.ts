/** The calls that make and end tokens, with what they mean for what is remembered of others (identity-service.md 5, 7). */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { IamService } from "../../services/Iam.ts"
import type { Plane } from "../../services/Plane.ts"
import type { UpstreamFailure } from "../../services/Upstream.ts"
import { type Acquaintances, tokenKey } from "./Acquaintances.ts"
import { isVerdict, tried } from "./Tried.ts"

type Spending = Pick<IamService, "exchange" | "refresh" | "revoke">

/** It never reached what it asks for. An interrupted call, or one without an answer, may have. */
const didNothing = (exit: Exit.Exit<unknown, UpstreamFailure>): boolean =>
  Exit.isFailure(exit) &&
  Option.exists(
    Cause.failureOption(exit.cause),
    (failure) => failure._tag === "NotExecuted" || (failure._tag === "Refused" && failure.status === 429)
  )

export const makeSpending = (
  calls: Spending,
  acquaintances: Acquaintances,
  /** Drops what is remembered of these access tokens. */
  forgetWhere: (isOver: (key: string) => boolean) => Effect.Effect<void>
): Spending => {
  const known = (plane: Plane, token: Redacted.Redacted) => ({
    vouched: acquaintances.isVouched(tokenKey(plane, token)),
    testing: plane._tag === "Testing"
  })

  return {
    exchange: (plane, slt, key) =>
      calls.exchange(plane, slt, key).pipe(
        // Nobody vouches for an SLT before it is spent.
        tried({ vouched: false, testing: plane._tag === "Testing" }),
        Effect.tap((grant) => acquaintances.granted(plane, grant, Option.none()))
      ),

    refresh: (plane, token, key) =>
      Effect.suspend(() =>
        calls.refresh(plane, token, key).pipe(
          tried(known(plane, token)),
          Effect.tap((grant) => acquaintances.granted(plane, grant, Option.some(token))),
          // A refusal, or one that was not heard, may have ended the family: used twice, the token compromises it.
          Effect.onExit((exit) =>
            Exit.isSuccess(exit) || didNothing(exit)
              ? Effect.void
              : forgetWhere(acquaintances.kinOf(plane, token))
          ),
          Effect.tapErrorTag("Refused", (refused) =>
            Effect.sync(() => {
              if (isVerdict(refused, plane._tag === "Testing")) {
                acquaintances.refused(tokenKey(plane, token))
              }
            })
          )
        )
      ),

    revoke: (plane, token, key) =>
      Effect.suspend(() => {
        const own = tokenKey(plane, token)
        const { testing, vouched } = known(plane, token)
        return calls.revoke(plane, token, key).pipe(
          // IAM does not tell whether it knew the token: a stranger's costs its sender a try in any case.
          tried({ vouched, testing, refuses: () => !vouched }),
          // After the call, and whatever its outcome: what was looked at before may be dead.
          Effect.onExit((exit) => {
            if (didNothing(exit)) return Effect.void
            const isKin = acquaintances.kinOf(plane, token)
            const family = Redacted.value(token).startsWith("ort_")
            return forgetWhere((key) => key === own || (family && isKin(key)))
          }),
          // Used up: whoever revokes it again is a stranger.
          Effect.tap(() => acquaintances.refused(own))
        )
      })
  }
}
