/** What IAM says about the secret of the application itself. */
import * as Effect from "effect/Effect"
import type { Refused, UpstreamFailure } from "../../services/UpstreamFailure.ts"
import type { IamPath } from "./budget/Purpose.ts"

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

  return <A>(path: string, call: Effect.Effect<A, UpstreamFailure>): Effect.Effect<A, UpstreamFailure> =>
    Effect.suspend(() => {
      const since = changes
      return Effect.tapBoth(call, {
        onSuccess: () => change(false, since, Effect.logInfo("IAM accepts the application's secret again")),
        onFailure: (failure) =>
          failure._tag === "Refused" && refusesSecret(failure) && path !== signedPath
            ? change(
                true,
                since,
                Effect.logError("IAM refuses the application's secret: no session can begin or be checked", {
                  failure: `${failure.status} ${failure.code}`,
                  advice: `set MUSIC_IAM_APP_SECRET to the current secret of the application ${applicationId} at IAM and restart, or enable the application there`,
                  ...(failure.requestId === undefined ? {} : { upstreamRequestId: failure.requestId })
                })
              )
            : Effect.void
      })
    })
}
