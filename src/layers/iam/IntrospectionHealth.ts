/**
 * Whether introspection works, by plane. A login or refresh whose tokens cannot be introspected afterwards is a lost session,
 * so nothing is spent while introspection fails. An inactive answer about a token that was just received is no verdict.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { monotonicNow } from "../../services/FiberContext.ts"
import { type Plane, type PlaneId, planeId } from "../../services/Plane.ts"
import { Unknown, type UpstreamFailure } from "../../services/UpstreamFailure.ts"
import { expectStatus, type ResponseReader, readJson } from "../upstream/UpstreamResponse.ts"
import type { CallObserver, IamBudget } from "./budget/IamBudget.ts"
import type { KnownCredentials } from "./budget/KnownCredentials.ts"
import { introspectPath, type Purpose } from "./budget/Purpose.ts"
import type { PlaneCall } from "./IamCall.ts"
import { makeTtlCache } from "./TtlCache.ts"

/** One introspection call to IAM, within the budget. Its outcome is recorded. */
export type SendIntrospection = <A>(
  plane: Plane,
  token: Redacted.Redacted,
  hint: "access_token" | "refresh_token",
  purpose: Purpose,
  read: ResponseReader<A>
) => Effect.Effect<A, UpstreamFailure>

export interface IntrospectionHealth {
  readonly send: SendIntrospection
  /**
   * Runs a login or refresh, which spends its token, only while introspection works. It runs at once unless the last
   * introspection in the plane failed and none has succeeded since, or one has been out for two seconds. Then a probe comes
   * first: it introspects this refresh token, which does not consume it, or a token that was never issued. All waiting
   * callers share one probe, and its failure also applies to the next second. If the probe fails, nothing is spent.
   */
  readonly spendWhileWorking: (
    plane: Plane,
    refreshToken: Option.Option<Redacted.Redacted>
  ) => <A>(spend: Effect.Effect<A, UpstreamFailure>) => Effect.Effect<A, UpstreamFailure>
  /** After an inactive answer: fails, instead of accepting the verdict, about a token that was just received (`isJustReceived`). */
  readonly confirmInactive: (credential: string) => Effect.Effect<void, UpstreamFailure>
}

/**
 * Milliseconds after the first receipt of a token in which an inactive answer counts as a fault of IAM. A replay does not
 * prolong it, so that a session that has ended is refused afterwards.
 */
const justReceivedMillis = 60_000

/** `receivedAt` in monotonic milliseconds, of `KnownCredentials`. */
export const isJustReceived = (receivedAt: number | undefined, now: number): boolean =>
  receivedAt !== undefined && now < receivedAt + justReceivedMillis

const maxProbedPlanes = 10_000

/** Well formed, and never issued. */
const neverIssuedToken = Redacted.make(`oat_${"0".repeat(43)}`)

const readActive: ResponseReader<unknown> = readJson(Schema.Struct({ active: Schema.Boolean }))

/** Milliseconds after which an introspection without a response counts as failing. */
const slowMillis = 2_000
/** Milliseconds between two probes. */
const probePause = 1_000

const isRefusal = (cause: Cause.Cause<UpstreamFailure>): boolean =>
  Option.exists(Cause.failureOption(cause), (failure) => failure._tag === "Refused")

const makeOutcomes = () => {
  let started = 0
  /** By plane: the newest introspection that had started when one failed. */
  const failedAt = new Map<PlaneId, number>()
  /** By plane: the start times of the introspections in flight, in order. */
  const inFlight = new Map<PlaneId, Map<number, number>>()

  const track =
    (plane: Plane): CallObserver =>
    (now) => {
      const id = planeId(plane)
      started += 1
      const number = started
      const running = inFlight.get(id) ?? new Map<number, number>()
      inFlight.set(id, running.set(number, now))
      return (exit) => {
        running.delete(number)
        if (running.size === 0) inFlight.delete(id)
        if (Exit.isFailure(exit)) failedAt.set(id, started)
        else if (number > (failedAt.get(id) ?? number)) failedAt.delete(id)
      }
    }

  const isFailing = (plane: Plane, now: number): boolean => {
    const [oldest = now] = inFlight.get(planeId(plane))?.values() ?? []
    return failedAt.has(planeId(plane)) || now - oldest > slowMillis
  }

  return { track, isFailing }
}

export const makeIntrospectionHealth = (
  call: PlaneCall,
  budget: IamBudget,
  known: Pick<KnownCredentials, "receivedAt">
): Effect.Effect<IntrospectionHealth, never, Scope.Scope> =>
  Effect.gen(function* () {
    const outcomes = makeOutcomes()
    const probes = yield* makeTtlCache<Exit.Exit<unknown, UpstreamFailure>, never>({
      capacity: maxProbedPlanes,
      millis: probePause,
      // A refusal shows that IAM answers, and a 429 has its own pause.
      keep: (exit) => Exit.isFailure(exit) && !isRefusal(exit.cause)
    })

    const send: SendIntrospection = (plane, token, hint, purpose, read) =>
      call(plane, {
        operation: "introspect",
        method: "POST",
        path: introspectPath,
        form: { token: Redacted.value(token), token_type_hint: hint },
        read: expectStatus(200, read)
      }).pipe(budget.within({ plane: planeId(plane), path: introspectPath }, purpose, outcomes.track(plane)))

    const probe = (plane: Plane, refreshToken: Option.Option<Redacted.Redacted>) =>
      send(
        plane,
        Option.getOrElse(refreshToken, () => neverIssuedToken),
        Option.isSome(refreshToken) ? "refresh_token" : "access_token",
        { completing: true },
        readActive
      ).pipe(
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
      spendWhileWorking:
        (plane, refreshToken) =>
        <A>(spend: Effect.Effect<A, UpstreamFailure>) =>
          Effect.withFiberRuntime<A, UpstreamFailure>((fiber) =>
            outcomes.isFailing(plane, monotonicNow(fiber))
              ? Effect.zipRight(Effect.flatten(probes.get(planeId(plane), probe(plane, refreshToken))), spend)
              : spend
          ),
      confirmInactive: (credential) =>
        Effect.withFiberRuntime((fiber) =>
          isJustReceived(known.receivedAt(credential), monotonicNow(fiber))
            ? new Unknown({
                dependency: "iam",
                reason: "reports a token as inactive that it has just issued or replayed",
                inactive: true
              })
            : Effect.void
        )
    }
  })
