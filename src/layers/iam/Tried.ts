/** Asking IAM about a caller's credential at the caller's own cost (services/Trial.ts). */
import * as Effect from "effect/Effect"
import { CurrentTrial } from "../../services/Trial.ts"
import { Refused, type UpstreamFailure } from "../../services/Upstream.ts"

/** In production these speak of our own secret, not of the caller's credential. */
const ours: ReadonlyArray<string> = ["invalid_client", "unauthenticated"]

/** A refusal of the caller's credential. */
export const isVerdict = ({ code, status }: Refused, testing: boolean): boolean =>
  status !== 429 && code !== "idempotency_in_progress" && (testing || !ours.includes(code))

/**
 * A credential that IAM vouched for lately goes through at once; any other only while its sender's address has tries
 * left. A refusal costs one, and so does a 429 of IAM for a stranger: else strangers could keep the limit reached.
 */
export const tried =
  <A>(credential: {
    readonly vouched: boolean
    readonly testing: boolean
    /** An answer that refuses all the same. */
    readonly refuses?: (answer: A) => boolean
  }) =>
  (call: Effect.Effect<A, UpstreamFailure>): Effect.Effect<A, UpstreamFailure> =>
    Effect.gen(function* () {
      const { refuses, testing, vouched } = credential
      const trial = yield* CurrentTrial
      const seconds = vouched ? 0 : yield* trial.begin
      if (seconds > 0) {
        return yield* new Refused({
          dependency: "iam",
          status: 429,
          code: "rate_limited",
          retryAfterSeconds: seconds
        })
      }
      return yield* call.pipe(
        Effect.tap((answer) => (refuses?.(answer) === true ? trial.lost : Effect.void)),
        Effect.tapErrorTag("Refused", (refused) =>
          isVerdict(refused, testing) || (refused.status === 429 && !vouched) ? trial.lost : Effect.void
        )
      )
    })
