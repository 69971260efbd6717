/**
 * The revocation of tokens (identity-service.md 7): a refresh token revokes its family, also when it is already rotated; an
 * access token revokes itself.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { IamService } from "../../services/Iam.ts"
import { planeId } from "../../services/Plane.ts"
import { traced } from "../../services/Tracing.ts"
import type { UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { expect, expectStatus, type ResponseReader } from "../upstream/UpstreamResponse.ts"
import type { IamBudget } from "./budget/IamBudget.ts"
import { type KnownCredentials, tokenKey } from "./budget/KnownCredentials.ts"
import type { IamPath } from "./budget/Purpose.ts"
import type { PlaneCall } from "./IamCall.ts"
import type { IntrospectionClient } from "./Introspection.ts"
import type { StoredSessions } from "./StoredSessions.ts"

/** A body shows that another system answered. */
const readEmpty: ResponseReader<void> = ({ body }) => expect(body.length === 0, "has a body")

const path: IamPath = "/oauth/revoke"

/** True when the call certainly had no effect. An interrupted call, or one without a response, may have had one. */
const hadNoEffect = (exit: Exit.Exit<unknown, UpstreamFailure>): boolean =>
  Exit.isFailure(exit) &&
  Option.exists(
    Cause.failureOption(exit.cause),
    (failure) => failure._tag === "NotExecuted" || (failure._tag === "Refused" && failure.status === 429)
  )

export interface Revocation extends Pick<IamService, "revoke"> {
  /**
   * After a call that may revoke the matching tokens: unless it certainly had no effect, their cached introspections are
   * dropped.
   */
  readonly mayHaveRevoked: (
    matches: (key: string) => boolean
  ) => (exit: Exit.Exit<unknown, UpstreamFailure>) => void
}

export const makeRevocation = (
  call: PlaneCall,
  budget: IamBudget,
  known: KnownCredentials,
  introspection: Pick<IntrospectionClient, "forgetWhere">,
  stored: Pick<StoredSessions, "recall" | "forgetLogin">
): Revocation => {
  const mayHaveRevoked: Revocation["mayHaveRevoked"] = (matches) => (exit) => {
    if (!hadNoEffect(exit)) introspection.forgetWhere(matches)
  }

  const send: IamService["revoke"] = (plane, token, key) => {
    const value = Redacted.value(token)
    const isRefreshToken = value.startsWith("ort_")
    const credential = tokenKey(plane, token)
    const login = known.loginOf(credential)
    const inFamily = known.inFamilyOf(plane, token)
    return call(plane, {
      operation: "revoke",
      method: "POST",
      path,
      key,
      form: { token: value, token_type_hint: isRefreshToken ? "refresh_token" : "access_token" },
      read: expectStatus(200, readEmpty)
    }).pipe(
      budget.within({ plane: planeId(plane), path }, { credential, use: "session" }, () => {
        const matches = (other: string) => other === credential || (isRefreshToken && inFamily(other))
        const dropCached = mayHaveRevoked(matches)
        return (exit) => {
          dropCached(exit)
          if (!hadNoEffect(exit)) known.endFamily(matches)
          if (Exit.isSuccess(exit)) known.end(credential)
        }
      }),
      Effect.zipLeft(stored.forgetLogin(login))
    )
  }

  const revoke: IamService["revoke"] = (plane, token, key) =>
    Effect.suspend(() => stored.recall(tokenKey(plane, token), () => send(plane, token, key))).pipe(
      traced("Iam.revoke")
    )

  return { revoke, mayHaveRevoked }
}
