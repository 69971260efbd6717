/** Fault injection for a port: fail calls before or after their effect, pause one, keep what they were given. */
import { Deferred, Effect } from "effect"
import type { Around } from "./Around.ts"

/** `before`: the call has had no effect yet. `after`: it took effect and only the answer is missing. */
type Moment = "before" | "after"

/** A pause, and the test's control of it. */
export const makeHold = Effect.gen(function* () {
  const arrived = yield* Deferred.make<void>()
  const released = yield* Deferred.make<void>()
  const held = {
    /** Completes when the call has arrived and is paused. */
    arrived: Deferred.await(arrived),
    release: Effect.asVoid(Deferred.succeed(released, undefined))
  }
  return { held, paused: Effect.zipRight(Deferred.succeed(arrived, undefined), Deferred.await(released)) }
})

interface Fault<Method extends string, E> {
  readonly method: Method
  readonly when: Moment
  readonly failure: E
  left: number
}

export const makeFaultSwitches = <Method extends string, E>() => {
  const seen: Array<readonly [method: Method, values: ReadonlyArray<unknown>]> = []
  let faults: ReadonlyArray<Fault<Method, E>> = []
  const holds = new Map<Method, Effect.Effect<void>>()

  const fail = (method: Method, when: Moment) =>
    Effect.suspend(() => {
      const fault = faults.find((each) => each.method === method && each.when === when && each.left > 0)
      if (fault === undefined) return Effect.void
      fault.left -= 1
      return Effect.fail(fault.failure)
    })
  const around: Around<E> = (call, name, values) =>
    Effect.suspend(() => {
      const method = name as Method
      seen.push([method, values])
      const held = holds.get(method) ?? Effect.void
      holds.delete(method)
      return held.pipe(
        Effect.zipRight(fail(method, "before")),
        Effect.zipRight(call),
        Effect.tap(() => fail(method, "after"))
      )
    })

  return {
    /** Fails the next `times` calls. */
    failNext: (
      method: Method,
      failure: E,
      { times = 1, when = "before" }: { readonly times?: number; readonly when?: Moment } = {}
    ) =>
      Effect.sync(() => {
        faults = [...faults, { method, when, failure, left: times }]
      }),
    /** Fails no later call of the method. */
    repair: (method: Method) =>
      Effect.sync(() => {
        faults = faults.filter((fault) => fault.method !== method)
      }),
    /** Pauses the next call of the method until it is released. */
    hold: (method: Method) =>
      Effect.map(makeHold, ({ held, paused }) => {
        holds.set(method, paused)
        return held
      }),
    /** Arguments of every call of a method, oldest first. */
    seen: <Values extends ReadonlyArray<unknown>>(method: Method) =>
      Effect.sync(() => seen.flatMap(([name, values]) => (name === method ? [values as Values] : []))),
    calls: (method: Method) => Effect.sync(() => seen.filter(([name]) => name === method).length),
    around
  }
}
