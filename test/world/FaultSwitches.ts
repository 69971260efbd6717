/** Fault injection for a simulated port: fail calls before or after their effect, pause one, count them. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { UpstreamFailure } from "../../src/services/UpstreamFailure.ts"

/** `before`: the call has had no effect yet. `after`: it took effect and only the answer is missing. */
type Moment = "before" | "after"

export interface Held {
  /** Completes when the call has arrived and is paused. */
  readonly arrived: Effect.Effect<void>
  readonly release: Effect.Effect<void>
}

/** A pause, and the test's control of it. */
export const makeHold = Effect.gen(function* () {
  const arrived = yield* Deferred.make<void>()
  const released = yield* Deferred.make<void>()
  const held: Held = {
    arrived: Deferred.await(arrived),
    release: Effect.asVoid(Deferred.succeed(released, undefined))
  }
  return { held, paused: Effect.zipRight(Deferred.succeed(arrived, undefined), Deferred.await(released)) }
})

interface Rule<Method extends string> {
  readonly method: Method
  readonly when: Moment
  left: number
}

export const makeFaultSwitches = <Method extends string>() => {
  const counts = new Map<Method, number>()
  const faults: Array<Rule<Method> & { readonly failure: UpstreamFailure }> = []
  const holds: Array<Rule<Method> & { readonly paused: Effect.Effect<void> }> = []

  const take = <R extends Rule<Method>>(rules: ReadonlyArray<R>, method: Method, when: Moment) => {
    const rule = rules.find((each) => each.method === method && each.when === when && each.left > 0)
    if (rule !== undefined) rule.left -= 1
    return rule
  }
  const count = (method: Method) => Effect.sync(() => counts.set(method, (counts.get(method) ?? 0) + 1))
  /** Applies the pauses and faults of one moment to a call. `around` wraps the pause. */
  const pass = (
    method: Method,
    when: Moment,
    around: (paused: Effect.Effect<void>) => Effect.Effect<void> = (paused) => paused
  ): Effect.Effect<void, UpstreamFailure> =>
    Effect.gen(function* () {
      const hold = take(holds, method, when)
      if (hold !== undefined) yield* around(hold.paused)
      const fault = take(faults, method, when)
      if (fault !== undefined) return yield* Effect.fail(fault.failure)
    })
  /** Counts a call and applies the pauses and faults of both moments. */
  const through =
    (method: Method) =>
    <A>(call: Effect.Effect<A, UpstreamFailure>): Effect.Effect<A, UpstreamFailure> =>
      Effect.all([count(method), pass(method, "before")]).pipe(
        Effect.zipRight(call),
        Effect.tap(() => pass(method, "after"))
      )

  return {
    /** Fails the next `times` calls. */
    failNext: (
      method: Method,
      failure: UpstreamFailure,
      { times = 1, when = "before" }: { readonly times?: number; readonly when?: Moment } = {}
    ) => Effect.sync(() => faults.push({ method, when, failure, left: times })),
    /** Pauses the next call until it is released; `after` pauses it once it has taken effect. */
    hold: (method: Method, when: Moment = "before") =>
      Effect.map(makeHold, ({ held, paused }) => {
        holds.push({ method, when, left: 1, paused })
        return held
      }),
    calls: (method: Method) => Effect.sync(() => counts.get(method) ?? 0),
    gate: { count, pass, through }
  }
}
