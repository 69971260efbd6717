/** Looking at tokens, live (identity-service.md 6). */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { IamService, Introspection } from "../../services/Iam.ts"
import { monotonicMillis } from "../../services/MonotonicTime.ts"
import { environmentIdOf, type Plane, type PlaneId, planeId } from "../../services/Plane.ts"
import { Unknown, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { type ResponseReader, readJson } from "../upstream/UpstreamResponse.ts"
import { type CredentialCache, refusalMillis, tokenKey } from "./budget/CredentialCache.ts"
import { type IamBudget, introspectPath, type Purpose } from "./budget/IamBudget.ts"
import type { PlaneCall } from "./IamCall.ts"
import { expectStatus } from "./IamSchemas.ts"
import { readIntrospection } from "./IntrospectionResponse.ts"
import { makeTtlCache } from "./TtlCache.ts"

const largestCache = 10_000

/** Asked about where no token is at hand: well formed, and never issued. */
const noToken = Redacted.make(`oat_${"0".repeat(43)}`)

interface Seen {
  readonly introspection: Option.Option<Introspection>
  /** Monotonic milliseconds of the answer. */
  readonly at: number
}

export interface IntrospectionClient extends Pick<IamService, "introspect"> {
  /**
   * Succeeds at once unless the last look in the plane failed and none has succeeded since, or one has been out for two
   * seconds. Then it makes sure by a look at this refresh token, which does not consume it, or at no token. One such look
   * serves all callers that wait, and its failure also those of the next second.
   */
  readonly ensureLooks: (
    plane: Plane,
    refreshToken: Option.Option<Redacted.Redacted>
  ) => Effect.Effect<void, UpstreamFailure>
  /** Drops what is remembered of these tokens, named by `tokenKey`, and what is being looked at. */
  readonly forgetWhere: (isOver: (key: string) => boolean) => Effect.Effect<void>
}

const readActive: ResponseReader<unknown> = readJson(Schema.Struct({ active: Schema.Boolean }))

/** Milliseconds after which a look without an answer counts as failing. */
const slowMillis = 2_000
/** Milliseconds between two looks that find out whether looks work again. */
const probePause = 1_000

const isRefusal = (cause: Cause.Cause<UpstreamFailure>): boolean =>
  Option.exists(Cause.failureOption(cause), (failure) => failure._tag === "Refused")

/** Which planes have a look that failed last, or one that does not answer. */
const makeLookHealth = () => {
  let begun = 0
  /** The newest look that had begun when one failed, by plane. */
  const failedAt = new Map<PlaneId, number>()
  /** When the looks began that are out, by plane; in order. */
  const out = new Map<PlaneId, Map<number, number>>()

  const watch = <A>(plane: Plane, look: Effect.Effect<A, UpstreamFailure>) =>
    Effect.flatMap(monotonicMillis, (now) => {
      const id = planeId(plane)
      begun += 1
      const number = begun
      const running = out.get(id) ?? new Map<number, number>()
      out.set(id, running.set(number, now))
      return Effect.onExit(look, (exit) =>
        Effect.sync(() => {
          running.delete(number)
          if (running.size === 0) out.delete(id)
          if (Exit.isFailure(exit)) failedAt.set(id, begun)
          else if (number > (failedAt.get(id) ?? number)) failedAt.delete(id)
        })
      )
    })

  const isFailing = (plane: Plane, now: number): boolean => {
    const [oldest = now] = out.get(planeId(plane))?.values() ?? []
    return failedAt.has(planeId(plane)) || now - oldest > slowMillis
  }

  return { watch, isFailing }
}

/**
 * Looks at one token that run at the same time are one look. With `cacheSeconds` above 0 a live answer is remembered for
 * that long, never past the token's own end. A token that IAM called inactive is not asked about again for a while.
 */
export const makeIntrospection = (
  call: PlaneCall,
  budget: IamBudget,
  credentials: CredentialCache,
  options: { readonly applicationId: string; readonly cacheSeconds: number }
): Effect.Effect<IntrospectionClient, never, Scope.Scope> =>
  Effect.gen(function* () {
    const looks = yield* makeTtlCache<Seen, UpstreamFailure>({
      capacity: largestCache,
      millis: options.cacheSeconds * 1_000,
      operation: "introspect",
      keep: ({ introspection }) => options.cacheSeconds > 0 && Option.isSome(introspection)
    })
    const probes = yield* makeTtlCache<Exit.Exit<unknown, UpstreamFailure>, never>({
      capacity: largestCache,
      millis: probePause,
      // A refusal comes from an IAM that answers, and a 429 says itself when it ends.
      keep: (exit) => Exit.isFailure(exit) && !isRefusal(exit.cause)
    })
    const health = makeLookHealth()

    const ask = <A>(
      plane: Plane,
      token: Redacted.Redacted,
      hint: "access_token" | "refresh_token",
      purpose: Purpose,
      read: ResponseReader<A>
    ): Effect.Effect<A, UpstreamFailure> =>
      budget.within(
        { plane: planeId(plane), path: introspectPath },
        purpose
      )(
        health.watch(
          plane,
          call(plane, {
            operation: "introspect",
            method: "POST",
            path: introspectPath,
            form: { token: Redacted.value(token), token_type_hint: hint },
            read: expectStatus(200, read)
          })
        )
      )

    const look = (
      plane: Plane,
      token: Redacted.Redacted
    ): Effect.Effect<Option.Option<Introspection>, UpstreamFailure> =>
      Effect.gen(function* () {
        const credential = tokenKey(plane, token)
        const kept = credentials.completingPlace(credential)
        const purpose: Purpose = Option.match(kept, {
          onNone: () => ({ credential }),
          onSome: (place) => ({ credential, place, completing: true })
        })
        const read = readIntrospection(
          { applicationId: options.applicationId, environmentId: environmentIdOf(plane) },
          yield* Clock.currentTimeMillis
        )
        const seen = yield* ask(plane, token, "access_token", purpose, read)
        if (Option.isSome(seen)) {
          const owner = Option.map(seen.value.publicId, (publicId) => `${planeId(plane)} ${publicId}`)
          credentials.markLive(credential, Option.getOrUndefined(owner))
          return seen
        }
        if (credentials.isJustIssued(credential, yield* monotonicMillis)) {
          return yield* new Unknown({ dependency: "iam", reason: "calls inactive what it has just issued" })
        }
        yield* budget.recordRefusal(credential, refusalMillis.access)
        return seen
      })

    const introspect = (plane: Plane, token: Redacted.Redacted) =>
      Effect.gen(function* () {
        const key = tokenKey(plane, token)
        if (credentials.isRefused(key, yield* monotonicMillis)) return Option.none()
        const lookNow = Effect.zipWith(look(plane, token), monotonicMillis, (introspection, at) => ({
          introspection,
          at
        }))
        const { at, introspection } = yield* looks.get(key, lookNow)
        if (Option.isNone(introspection)) return introspection
        // IAM's clock goes on while the answer lies here.
        const answeredAt = introspection.value.answeredAt + Math.round((yield* monotonicMillis) - at)
        if (answeredAt < introspection.value.expiresAt * 1_000)
          return Option.some({ ...introspection.value, answeredAt })
        yield* looks.forget(key)
        return yield* look(plane, token)
      })

    return {
      introspect: Effect.fn("Iam.introspect")(introspect),
      ensureLooks: (plane, refreshToken) =>
        Effect.flatMap(monotonicMillis, (now) => {
          if (!health.isFailing(plane, now)) return Effect.void
          const token = Option.getOrElse(refreshToken, () => noToken)
          const hint = Option.isSome(refreshToken) ? "refresh_token" : "access_token"
          const probe = ask(plane, token, hint, { completing: true }, readActive).pipe(
            // The next one finds out sooner than IAM asks for.
            Effect.mapError((failure) =>
              failure._tag === "Refused"
                ? failure
                : new Unknown({ dependency: "iam", reason: `looks at tokens fail: ${failure.reason}` })
            ),
            Effect.exit
          )
          return Effect.flatten(probes.get(planeId(plane), probe))
        }),
      forgetWhere: looks.forgetWhere
    }
  })
