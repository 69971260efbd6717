/** The exchange, rotation, revocation and introspection of tokens (identity-service.md 5 to 7). */
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { putBounded } from "../../services/combinators/BoundedMap.ts"
import type { IamService, Introspection, TokenGrant, UpstreamKey } from "../../services/Iam.ts"
import { monotonicMillis, unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { type Plane, type PlaneId, planeId } from "../../services/Plane.ts"
import type { SettingsValues } from "../../services/Settings.ts"
import { makeShare } from "../../services/combinators/Share.ts"
import {
  failureOf,
  NotExecuted,
  Refused,
  Unknown,
  type UpstreamFailure
} from "../../services/UpstreamFailure.ts"
import { expectStatus, type ResponseReader, readJson } from "../upstream/UpstreamResponse.ts"
import { readEmpty, readIntrospection, readTokens } from "./Answers.ts"
import { type Asked, type Budget, introspectPath } from "./Budget.ts"
import { type Credentials, tokenKey } from "./Credentials.ts"
import type { PlaneCall } from "./IamCall.ts"

const maxCachedTokens = 10_000
const maxPlanes = 10_000
/** Milliseconds between two probes of a plane. */
const probePause = 1_000

/** Codes that end a refresh token (identity-service.md 3). */
const deadTokenCodes: ReadonlyArray<string> = ["invalid_grant", "refresh_token_reuse", "invalid_token"]

/** Well formed, and never issued. */
const neverIssuedToken = Redacted.make(`oat_${"0".repeat(43)}`)
const readActive = readJson(Schema.Struct({ active: Schema.Boolean }))

/** Whether the call may have had an effect. One that was interrupted, or without an answer, may. */
const mayHaveEnded = (exit: Exit.Exit<unknown, UpstreamFailure>): boolean => {
  const failure = failureOf(exit)
  return failure?._tag !== "NotExecuted" && !(failure?._tag === "Refused" && failure.status === 429)
}

interface Answer {
  readonly introspection: Option.Option<Introspection>
  /** Monotonic milliseconds. */
  readonly at: number
}

/**
 * Concurrent introspections of one token share one call. With `introspectionCacheSeconds` above 0 a live answer is cached for that long,
 * never past the token's own expiry. A token that IAM called inactive is not introspected again for a while (`Credentials`).
 */
export const makeTokens = (
  call: PlaneCall,
  { within }: Budget,
  credentials: Credentials,
  { applicationId, introspectionCacheSeconds }: SettingsValues["iam"]
) =>
  Effect.gen(function* () {
    /** When the next probe is due in the planes whose last introspection failed. */
    const failing = new Map<PlaneId, number>()
    const cache = yield* makeShare<Answer, UpstreamFailure>({
      capacity: maxCachedTokens,
      millis: introspectionCacheSeconds * 1_000,
      keep: ({ introspection }) => Option.isSome(introspection)
    })

    const introspectOnce = <A>(
      plane: Plane,
      token: Redacted.Redacted,
      read: ResponseReader<A>,
      counted: Omit<Asked, "plane" | "path">
    ) => {
      const id = planeId(plane)
      return Effect.flatMap(monotonicMillis, (now) => {
        // Here, where it has a place: a probe without one leaves its second to the next call.
        if (counted.isProbe) failing.set(id, now + probePause)
        return call(plane, {
          operation: "introspect",
          method: "POST",
          path: introspectPath,
          form: { token: Redacted.value(token), token_type_hint: "access_token" },
          read: expectStatus(200, read)
        })
      }).pipe(
        Effect.matchEffect({
          onSuccess: (answer) => {
            failing.delete(id)
            return Effect.succeed(answer)
          },
          onFailure: (failure) => {
            // A 429 has its own pause.
            const isFault = failure._tag === "Refused" ? failure.status !== 429 : failure.isLate !== true
            if (isFault) putBounded(failing, id, failing.get(id) ?? 0, maxPlanes)
            return Effect.fail(failure)
          }
        }),
        within({ ...counted, plane: id, path: introspectPath })
      )
    }

    /** Notes what an answer says about the token. */
    const record = (plane: Plane, key: string, { at, introspection }: Answer) => {
      if (Option.isSome(introspection)) return credentials.confirm(key, plane, introspection.value.publicId)
      if (!credentials.isJustReceived(key, at)) return credentials.recordRefusal(key, "access")
      return new Unknown({
        dependency: "iam",
        reason: "reports a token as inactive that it has just issued or replayed",
        inactive: true
      })
    }

    const ask = (plane: Plane, token: Redacted.Redacted, key: string) =>
      Effect.clockWith((clock) =>
        introspectOnce(
          plane,
          token,
          readIntrospection(plane, applicationId, clock.unsafeCurrentTimeMillis()),
          { credential: key }
        ).pipe(
          Effect.flatMap((introspection) => {
            const answer: Answer = { introspection, at: unsafeMonotonicMillis(clock) }
            return Effect.as(record(plane, key, answer), answer)
          })
        )
      )

    const introspect: IamService["introspect"] = (plane, token) => {
      const key = tokenKey(plane, token)
      return Effect.gen(function* () {
        const asked = credentials.recalling(key, ask(plane, token, key))
        const { at, introspection } = yield* cache.get(key, asked, { operation: "introspect" })
        if (Option.isNone(introspection)) return introspection
        // IAM's time as of now: its `Date` plus the age of the cached answer.
        const answeredAt = introspection.value.answeredAt + Math.round((yield* monotonicMillis) - at)
        if (answeredAt < introspection.value.expiresAt * 1_000)
          return Option.some({ ...introspection.value, answeredAt })
        cache.forget(key)
        return (yield* ask(plane, token, key)).introspection
      }).pipe(credentials.unlessRefused(key, Effect.succeedNone))
    }

    /**
     * Around a login or refresh, which spends its token: without an introspection afterwards its session is lost. So nothing is spent
     * while introspection fails in the plane; one a second probes it first, with a token that was never issued. The probe has the class of
     * the call.
     */
    const whileIntrospectionWorks =
      (plane: Plane, asked: Pick<Asked, "credential" | "use">) =>
      <A>(spend: Effect.Effect<A, UpstreamFailure>): Effect.Effect<A, UpstreamFailure> =>
        Effect.flatMap(monotonicMillis, (now): Effect.Effect<A, UpstreamFailure> => {
          const probeAt = failing.get(planeId(plane))
          if (probeAt === undefined) return spend
          if (now < probeAt)
            return new NotExecuted({ dependency: "iam", reason: "introspection fails", retryAfterSeconds: 1 })
          const counted = { ...asked, isProbe: true }
          return Effect.zipRight(introspectOnce(plane, neverIssuedToken, readActive, counted), spend)
        })

    /** Around a call that may end tokens: their cached introspections are dropped, and those in flight. */
    const forgetting =
      (plane: Plane, token: Redacted.Redacted) =>
      <A>(sent: Effect.Effect<A, UpstreamFailure>): Effect.Effect<A, UpstreamFailure> =>
        Effect.suspend(() => {
          const inLogin = credentials.inLoginOf(plane, token)
          return Effect.onExit(sent, (exit) =>
            Effect.sync(() => {
              if (mayHaveEnded(exit)) cache.forgetWhere(inLogin)
            })
          )
        })

    /** Exchanges a token for a pair, with a place for the introspection that completes the exchange. */
    const spend = (
      plane: Plane,
      use: "login" | "refresh",
      presented: Redacted.Redacted,
      key: UpstreamKey
    ): Effect.Effect<TokenGrant, UpstreamFailure> => {
      const path = "/app-auth/tokens"
      const asked = { credential: tokenKey(plane, presented), use }
      const parameter = use === "login" ? "slt" : "refresh_token"
      return call(plane, {
        operation: use === "login" ? "exchange" : "refresh",
        method: "POST",
        path,
        key,
        form: { app_id: applicationId, [parameter]: Redacted.value(presented) },
        read: expectStatus(200, readTokens)
      }).pipe(
        Effect.tap((grant) =>
          credentials.recordGrant(plane, grant, use === "refresh" ? Option.some(presented) : Option.none())
        ),
        within({ ...asked, plane: planeId(plane), path }, (grant) => tokenKey(plane, grant.accessToken)),
        whileIntrospectionWorks(plane, asked)
      )
    }

    const refresh: IamService["refresh"] = (plane, token, key) => {
      const credential = tokenKey(plane, token)
      const sent = spend(plane, "refresh", token, key).pipe(
        forgetting(plane, token),
        Effect.tapErrorTag("Refused", ({ code, status }) =>
          Effect.when(
            credentials.recordRefusal(credential, "refresh"),
            () => status !== 429 && deadTokenCodes.includes(code)
          )
        )
      )
      // identity-service.md 5: a refused refresh token is dead under every key.
      const dead = Effect.failSync(
        () => new Refused({ dependency: "iam", status: 400, code: "invalid_grant" })
      )
      return credentials.unlessRefused(credential, dead)(credentials.recalling(credential, sent))
    }

    const revoke: IamService["revoke"] = (plane, token, key) => {
      const path = "/oauth/revoke"
      const credential = tokenKey(plane, token)
      const kind = Redacted.value(token).startsWith("ort_") ? "refresh" : "access"
      const sent = call(plane, {
        operation: "revoke",
        method: "POST",
        path,
        key,
        form: { token: Redacted.value(token), token_type_hint: `${kind}_token` },
        read: expectStatus(200, readEmpty)
      }).pipe(
        Effect.onExit((exit) =>
          Effect.sync(() => {
            if (mayHaveEnded(exit)) credentials.endReceipt(credential, kind)
          })
        ),
        within({ plane: planeId(plane), path, credential, use: "logout" }),
        forgetting(plane, token),
        Effect.zipLeft(
          kind === "refresh" ? credentials.recordRefusal(credential, kind) : credentials.end(credential, kind)
        )
      )
      return credentials.recalling(credential, sent)
    }

    return {
      exchange: (plane: Plane, slt: Redacted.Redacted, key: UpstreamKey) => spend(plane, "login", slt, key),
      refresh,
      revoke,
      introspect,
      /** IAM refused the access token, by its key, at a call other than its introspection. */
      recordInactive: (key: string) =>
        Effect.suspend(() => {
          cache.forget(key)
          return credentials.recordRefusal(key, "access")
        }),
      /** Drops the cached introspections of the tokens whose `tokenKey` matches, and those in flight. */
      forgetWhere: cache.forgetWhere
    }
  })
