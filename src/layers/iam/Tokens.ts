/** The exchange, rotation, revocation and introspection of tokens (identity-service.md 5 to 7). */
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import { constVoid } from "effect/Function"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { putBounded } from "../../services/combinators/BoundedMap.ts"
import { deadTokenCodes, type IamService, type Introspection, type TokenGrant } from "../../services/Iam.ts"
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
import { introspectPath } from "./Budget.ts"
import { type Credentials, tokenKey } from "./Credentials.ts"
import type { Ask, Counting } from "./IamCall.ts"

const maxCachedTokens = 10_000
const maxPlanes = 10_000
/** Milliseconds between two probes of a plane. */
const probePause = 1_000

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
  ask: Ask,
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
      counting: Counting
    ) => {
      const id = planeId(plane)
      const form = { token: Redacted.value(token), token_type_hint: "access_token" }
      const request = { operation: "introspect", path: introspectPath, form, read: expectStatus(200, read) }
      return ask(plane, request, counting).pipe(
        Effect.tapBoth({
          onSuccess: () => Effect.sync(() => failing.delete(id)),
          onFailure: (failure) =>
            Effect.sync(() => {
              // A 429 has its own pause.
              const isFault = failure._tag === "Refused" ? failure.status !== 429 : failure.isLate !== true
              if (isFault) putBounded(failing, id, failing.get(id) ?? 0, maxPlanes)
              // A probe that found nothing out leaves its second to the next call. Another answer may have come meanwhile.
              else if (counting.isProbe && failing.has(id)) failing.set(id, 0)
            })
        })
      )
    }

    /** Notes what an answer says about the token. */
    const record = (plane: Plane, key: string, { at, introspection }: Answer) => {
      if (Option.isSome(introspection)) return credentials.confirm(key, plane, introspection.value.publicId)
      if (!credentials.isJustReceived(key, at)) return credentials.recordRefusal(key, "access")
      return new Unknown({
        dependency: "iam",
        reason: "reports a token as inactive that it has just issued or replayed"
      })
    }

    const introspectNow = (plane: Plane, token: Redacted.Redacted, key: string) =>
      Effect.clockWith((clock) => {
        const read = readIntrospection(plane, applicationId, clock.unsafeCurrentTimeMillis())
        return Effect.flatMap(introspectOnce(plane, token, read, { credential: key }), (introspection) => {
          const answer: Answer = { introspection, at: unsafeMonotonicMillis(clock) }
          return Effect.as(record(plane, key, answer), answer)
        })
      })

    const introspect: IamService["introspect"] = (plane, token) => {
      const key = tokenKey(plane, token)
      return Effect.gen(function* () {
        const asked = credentials.recalling(key, introspectNow(plane, token, key))
        const { at, introspection } = yield* cache.get(key, asked, { operation: "introspect" })
        if (Option.isNone(introspection)) return introspection
        // IAM's time as of now: its `Date` plus the age of the cached answer.
        const answeredAt = introspection.value.answeredAt + Math.round((yield* monotonicMillis) - at)
        if (answeredAt < introspection.value.expiresAt * 1_000)
          return Option.some({ ...introspection.value, answeredAt })
        cache.forget(key)
        return (yield* introspectNow(plane, token, key)).introspection
      }).pipe(credentials.unlessRefused(key, Effect.succeedNone))
    }

    /** Around a call that may end tokens: their cached introspections are dropped, and those in flight. */
    const forgetting =
      (plane: Plane, token: Redacted.Redacted, onEnded: () => void = constVoid) =>
      <A>(sent: Effect.Effect<A, UpstreamFailure>): Effect.Effect<A, UpstreamFailure> =>
        Effect.suspend(() => {
          const inLogin = credentials.inLoginOf(plane, token)
          return Effect.onExit(sent, (exit) =>
            Effect.sync(() => {
              if (!mayHaveEnded(exit)) return
              cache.forgetWhere(inLogin)
              onEnded()
            })
          )
        })

    /**
     * Exchanges a token for a pair, with a place for the introspection that completes the exchange: without one its session is lost. So
     * nothing is spent while introspection fails in the plane; one exchange a second probes it first, with a token that was never issued.
     * The probe has the class of the exchange.
     */
    const spend =
      (use: "login" | "refresh"): IamService["exchange"] =>
      (plane, presented, key) => {
        const id = planeId(plane)
        const counting = { credential: tokenKey(plane, presented), use }
        const request = {
          operation: use === "login" ? "exchange" : "refresh",
          path: "/app-auth/tokens",
          key,
          form: {
            app_id: applicationId,
            [use === "login" ? "slt" : "refresh_token"]: Redacted.value(presented)
          },
          read: expectStatus(200, readTokens)
        }
        const spent = Effect.tap(
          ask(plane, request, counting, (grant) => tokenKey(plane, grant.accessToken)),
          (grant) => credentials.recordGrant(plane, grant, use === "refresh" ? presented : undefined)
        )
        return Effect.clockWith((clock): Effect.Effect<TokenGrant, UpstreamFailure> => {
          const now = unsafeMonotonicMillis(clock)
          const probeAt = failing.get(id)
          if (probeAt === undefined) return spent
          if (now < probeAt)
            return new NotExecuted({ dependency: "iam", reason: "introspection fails", retryAfterSeconds: 1 })
          failing.set(id, now + probePause)
          const probe = introspectOnce(plane, neverIssuedToken, readActive, { ...counting, isProbe: true })
          return Effect.zipRight(probe, spent)
        })
      }

    const refresh: IamService["refresh"] = (plane, token, key) => {
      const credential = tokenKey(plane, token)
      const sent = spend("refresh")(plane, token, key).pipe(
        forgetting(plane, token),
        Effect.tapErrorTag("Refused", ({ code, status }) =>
          Effect.when(
            credentials.recordRefusal(credential, "refresh"),
            () => status !== 429 && deadTokenCodes.some((dead) => dead === code)
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
      const credential = tokenKey(plane, token)
      const kind = Redacted.value(token).startsWith("ort_") ? "refresh" : "access"
      const form = { token: Redacted.value(token), token_type_hint: `${kind}_token` }
      const read = expectStatus(200, readEmpty)
      const request = { operation: "revoke", path: "/oauth/revoke", key, form, read }
      const sent = ask(plane, request, { credential, use: "logout" }).pipe(
        forgetting(plane, token, () => credentials.endReceipt(credential, kind)),
        Effect.zipLeft(
          kind === "refresh" ? credentials.recordRefusal(credential, kind) : credentials.end(credential, kind)
        )
      )
      return credentials.recalling(credential, sent)
    }

    return {
      exchange: spend("login"),
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
