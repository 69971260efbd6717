/** What a credential that nobody vouched for may cost: IAM gives the whole application a few calls a minute. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

/** One request's claim on IAM. Ports that ask IAM about a caller's credential use it; who may claim how much is the server's. */
export interface Trial {
  /**
   * Before IAM is asked about a credential that it did not vouch for lately: 0, or the seconds to wait instead. A request
   * that was let through once stays so, because a login that stops halfway is a lost session.
   */
  readonly begin: Effect.Effect<number>
  /** IAM refused a credential of this request. */
  readonly lost: Effect.Effect<void>
}

/** Without a request, and where nothing is limited, everybody may ask. */
export class CurrentTrial extends Context.Reference<CurrentTrial>()("music/Trial", {
  defaultValue: (): Trial => ({ begin: Effect.succeed(0), lost: Effect.void })
}) {}
