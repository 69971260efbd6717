/** What IAM says about the secret of the application itself. */
import * as Effect from "effect/Effect"
import type { Refused, UpstreamFailure } from "../../services/UpstreamFailure.ts"
import type { IamPath } from "./budget/Purpose.ts"
import type { Credentials, IamCall, IamRequest } from "./IamCall.ts"

/** IAM refused the application's credentials in the plane of the call (identity-service.md 3, 9), not the token that it presented. */
export const refusesSecret = ({ code }: Pick<Refused, "code">): boolean =>
  code === "invalid_client" || code === "unauthenticated"

/**
 * It refuses a stale signature, or one for a moved path, with the same code. The list of endpoints, which is then fetched, shows a refused
 * secret.
 */
const signedPath: IamPath = "/obo-access/exchanges"

/**
 * Logs once when IAM begins to refuse the secret, and once when it accepts it again. A call that began before the last change says
 * nothing about what came after it.
 */
export const makeSecretWatch = (applicationId: string) => {
  let refused = false
  let changes = 0
  const change = (to: boolean, since: number, report: Effect.Effect<void>): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (refused === to || changes !== since) return Effect.void
      refused = to
      changes += 1
      return report
    })

  const reportRefusal = (refusal: Refused, since: number): Effect.Effect<void> =>
    change(
      true,
      since,
      Effect.logError("IAM refuses the application's secret: no session can begin or be checked", {
        failure: `${refusal.status} ${refusal.code}`,
        advice: `set MUSIC_IAM_APP_SECRET to the current secret of the application ${applicationId} at IAM and restart, or enable the application there`,
        ...(refusal.requestId === undefined ? {} : { upstreamRequestId: refusal.requestId })
      })
    )
  const accepted = Effect.logInfo("IAM accepts the application's secret again")

  return (call: IamCall, credentials: Credentials) =>
    <A>(request: IamRequest<A>): Effect.Effect<A, UpstreamFailure> => {
      const since = changes
      const sent = call(credentials, {
        ...request,
        onRefused: (refusal) =>
          refusesSecret(refusal) && request.path !== signedPath ? reportRefusal(refusal, since) : Effect.void
      })
      return refused ? Effect.tap(sent, () => change(false, since, accepted)) : sent
    }
}
