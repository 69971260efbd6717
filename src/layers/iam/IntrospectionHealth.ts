/**
 * Whether introspection works, by plane. A login or refresh whose tokens cannot be introspected afterwards is a lost session, so nothing
 * is spent while introspection fails.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { constFalse } from "effect/Function"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { putBounded } from "../../services/BoundedMap.ts"
import { unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { type Plane, type PlaneId, planeId } from "../../services/Plane.ts"
import { makeShare } from "../../services/Share.ts"
import { Unknown, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { expectStatus, type ResponseReader, readJson } from "../upstream/UpstreamResponse.ts"
import { type Budget, introspectPath, type Purpose } from "./Budget.ts"
import { tokenKey } from "./Credentials.ts"
import type { PlaneCall } from "./IamCall.ts"

export interface IntrospectionHealth {
  /** One introspection call, within the budget (`Budget.within`). Its outcome counts. */
  readonly send: <A>(
    plane: Plane,
    token: Redacted.Redacted,
    hint: "access_token" | "refresh_token",
    purpose: Purpose,
    read: ResponseReader<A>,
    accepts: (answer: A) => boolean
  ) => Effect.Effect<A, UpstreamFailure>
  /**
   * Runs a login or refresh, which spends its token, at once, unless the last introspection in the plane failed and none has succeeded
   * since, or one has been out for two seconds. Then a probe comes first: it introspects this refresh token, which does not consume it, or
   * a token that was never issued. All waiting callers share one probe a second.
   */
  readonly spendWhileWorking: (
    plane: Plane,
    refreshToken: Option.Option<Redacted.Redacted>
  ) => <A>(spend: Effect.Effect<A, UpstreamFailure>) => Effect.Effect<A, UpstreamFailure>
}

const maxPlanes = 10_000
/** Milliseconds between two probes. */
const probePause = 1_000
/** Milliseconds after which an introspection without an answer counts as failing. */
const slowMillis = 2_000

/** Well formed, and never issued. */
const neverIssuedToken = Redacted.make(`oat_${"0".repeat(43)}`)

const readActive: ResponseReader<unknown> = readJson(Schema.Struct({ active: Schema.Boolean }))

interface Outcomes {
  /** Start times of the introspections in flight, by number. */
  readonly inFlight: Map<number, number>
  /** The newest introspection that had started when one failed. */
  failedAt: number | undefined
}

export const makeIntrospectionHealth = (
  call: PlaneCall,
  budget: Budget
): Effect.Effect<IntrospectionHealth, never, Scope.Scope> =>
  Effect.gen(function* () {
    /** Of the planes with an introspection in flight, or whose last one failed. */
    const planes = new Map<PlaneId, Outcomes>()
    let started = 0
    const probes = yield* makeShare<Exit.Exit<unknown, UpstreamFailure>, never>({
      capacity: maxPlanes,
      millis: probePause,
      // A refusal shows that IAM answers, and a 429 has its own pause.
      keep: (exit) =>
        Exit.isFailure(exit) && Option.getOrUndefined(Cause.failureOption(exit.cause))?._tag !== "Refused"
    })

    const isFailing = (plane: Plane, now: number): boolean => {
      const { failedAt, inFlight } = planes.get(planeId(plane)) ?? {}
      const [oldest = now] = inFlight?.values() ?? []
      return failedAt !== undefined || now - oldest > slowMillis
    }

    const observed =
      (plane: Plane) =>
      <A>(introspection: Effect.Effect<A, UpstreamFailure>): Effect.Effect<A, UpstreamFailure> =>
        Effect.clockWith((clock) => {
          const id = planeId(plane)
          const outcomes = planes.get(id) ?? { inFlight: new Map(), failedAt: undefined }
          putBounded(planes, id, outcomes, maxPlanes)
          started += 1
          const number = started
          outcomes.inFlight.set(number, unsafeMonotonicMillis(clock))
          return Effect.onExit(introspection, (exit) =>
            Effect.sync(() => {
              outcomes.inFlight.delete(number)
              if (Exit.isFailure(exit)) outcomes.failedAt = started
              else if (number > (outcomes.failedAt ?? number)) outcomes.failedAt = undefined
              if (outcomes.inFlight.size === 0 && outcomes.failedAt === undefined) planes.delete(id)
            })
          )
        })

    const send: IntrospectionHealth["send"] = (plane, token, hint, purpose, read, accepts) =>
      call(plane, {
        operation: "introspect",
        method: "POST",
        path: introspectPath,
        form: { token: Redacted.value(token), token_type_hint: hint },
        read: expectStatus(200, read)
      }).pipe(
        observed(plane),
        budget.within({ plane: planeId(plane), path: introspectPath }, purpose, accepts)
      )

    const probe = (plane: Plane, refreshToken: Option.Option<Redacted.Redacted>) =>
      Option.match(refreshToken, {
        onNone: () => send(plane, neverIssuedToken, "access_token", {}, readActive, constFalse),
        onSome: (token) =>
          send(
            plane,
            token,
            "refresh_token",
            { credential: tokenKey(plane, token), use: "refresh" },
            readActive,
            constFalse
          )
      }).pipe(
        // Drops IAM's `Retry-After`: the next probe comes earlier.
        Effect.mapError((failure) =>
          failure._tag === "Refused"
            ? failure
            : new Unknown({ dependency: "iam", reason: `introspection fails: ${failure.reason}` })
        ),
        Effect.exit
      )

    return {
      send,
      spendWhileWorking: (plane, refreshToken) => (spend) =>
        Effect.clockWith((clock) =>
          isFailing(plane, unsafeMonotonicMillis(clock))
            ? Effect.zipRight(Effect.flatten(probes.get(planeId(plane), probe(plane, refreshToken))), spend)
            : spend
        )
    }
  })
