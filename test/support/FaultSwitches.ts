/** Fault injection for a simulated port: fail calls before or after their effect, pause one, count them. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { UpstreamFailure } from "../../src/services/UpstreamFailure.ts"

/** `before`: the call has had no effect yet. `after`: it took effect and only the answer is missing. */
export type Moment = "before" | "after"

export interface Held {
  /** Completes when the call has arrived and is paused. */
  readonly arrived: Effect.Effect<void>
  readonly release: Effect.Effect<void>
}

export interface FaultSwitches<Method extends string> {
  /** Fails the next `times` calls; default 1. */
  readonly failNext: (
    method: Method,
    failure: UpstreamFailure,
    options?: { readonly times?: number; readonly when?: Moment }
  ) => Effect.Effect<void>
  /** Pauses the next call until it is released; `after` pauses it once it has taken effect. */
  readonly hold: (method: Method, when?: Moment) => Effect.Effect<Held>
  readonly calls: (method: Method) => Effect.Effect<number>
}

export interface Gate<Method extends string> {
  readonly count: (method: Method) => Effect.Effect<void>
  /** Applies the pauses and faults of one moment to a call. `around` wraps the pause. */
  readonly pass: (
    method: Method,
    when: Moment,
    around?: (paused: Effect.Effect<void>) => Effect.Effect<void>
  ) => Effect.Effect<void, UpstreamFailure>
  /** Counts a call and applies the pauses and faults of both moments. */
  readonly through: (
    method: Method
  ) => <A>(call: Effect.Effect<A, UpstreamFailure>) => Effect.Effect<A, UpstreamFailure>
}

export const makeFaultSwitches = <Method extends string>(): FaultSwitches<Method> & {
  readonly gate: Gate<Method>
} => {
  const counts = new Map<Method, number>()
  const faults: Array<{ method: Method; when: Moment; failure: UpstreamFailure; left: number }> = []
  const holds: Array<{
    method: Method
    when: Moment
    arrived: Deferred.Deferred<void>
    released: Deferred.Deferred<void>
  }> = []

  const takeHold = (method: Method, when: Moment) => {
    const at = holds.findIndex((hold) => hold.method === method && hold.when === when)
    return at < 0 ? undefined : holds.splice(at, 1)[0]
  }

  const takeFault = (method: Method, when: Moment) => {
    const fault = faults.find((entry) => entry.method === method && entry.when === when && entry.left > 0)
    if (fault !== undefined) fault.left -= 1
    return fault?.failure
  }

  const pass: Gate<Method>["pass"] = (method, when, around = (paused) => paused) =>
    Effect.gen(function* () {
      const hold = takeHold(method, when)
      if (hold !== undefined)
        yield* around(
          Effect.zipRight(Deferred.succeed(hold.arrived, undefined), Deferred.await(hold.released))
        )
      const failure = takeFault(method, when)
      if (failure !== undefined) return yield* Effect.fail(failure)
    })

  const count = (method: Method) => Effect.sync(() => counts.set(method, (counts.get(method) ?? 0) + 1))

  return {
    failNext: (method, failure, { times = 1, when = "before" } = {}) =>
      Effect.sync(() => faults.push({ method, when, failure, left: times })),
    hold: (method, when = "before") =>
      Effect.gen(function* () {
        const arrived = yield* Deferred.make<void>()
        const released = yield* Deferred.make<void>()
        holds.push({ method, when, arrived, released })
        return {
          arrived: Deferred.await(arrived),
          release: Effect.asVoid(Deferred.succeed(released, undefined))
        }
      }),
    calls: (method) => Effect.sync(() => counts.get(method) ?? 0),
    gate: {
      count,
      pass,
      through: (method) => (call) =>
        count(method).pipe(
          Effect.zipRight(pass(method, "before")),
          Effect.zipRight(call),
          Effect.tap(() => pass(method, "after"))
        )
    }
  }
}
