/** Switches of a simulated port: fail calls before or after they took effect, hold one up, count them. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { UpstreamFailure } from "../../src/services/UpstreamFailure.ts"

/** `before`: nothing happened yet. `after`: it happened, only the answer is missing. */
export type Moment = "before" | "after"

export interface Held {
  /** Completes once the call has come in and stands still. */
  readonly arrived: Effect.Effect<void>
  readonly release: Effect.Effect<void>
}

export interface Switches<Method extends string> {
  /** The next `times` calls (1 unless told) fail so. */
  readonly failNext: (
    method: Method,
    failure: UpstreamFailure,
    options?: { readonly times?: number; readonly when?: Moment }
  ) => Effect.Effect<void>
  /** The next call stands still until it is released; `after` holds up an answer that is already made. */
  readonly hold: (method: Method, when?: Moment) => Effect.Effect<Held>
  readonly calls: (method: Method) => Effect.Effect<number>
}

export interface Gate<Method extends string> {
  readonly count: (method: Method) => Effect.Effect<void>
  /** Where a call passes the switches of one moment. */
  readonly pass: (method: Method, when: Moment) => Effect.Effect<void, UpstreamFailure>
  /** A whole call: counted, and switched at both moments. */
  readonly through: (
    method: Method
  ) => <A>(call: Effect.Effect<A, UpstreamFailure>) => Effect.Effect<A, UpstreamFailure>
}

export const makeSwitches = <Method extends string>(): Switches<Method> & { readonly gate: Gate<Method> } => {
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

  const pass = (method: Method, when: Moment): Effect.Effect<void, UpstreamFailure> =>
    Effect.gen(function* () {
      const hold = takeHold(method, when)
      if (hold !== undefined) {
        yield* Deferred.succeed(hold.arrived, undefined)
        yield* Deferred.await(hold.released)
      }
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
