/** Stands around the calls of a service: of what its functions return, and of its effects. */
import { Effect } from "effect"
import type { StoreService, StoreUnavailable } from "../../src/services/Store.ts"

/** What a call is instead, by the call itself, its name and its arguments. */
export type Around<E = StoreUnavailable, R = never> = (
  call: Effect.Effect<unknown, E, R>,
  name: string,
  values: ReadonlyArray<unknown>
) => Effect.Effect<unknown, E, R>

export const aroundCalls = <S extends object, E, R>(service: S, around: Around<E, R>): S =>
  new Proxy(service, {
    get: (target, property) => {
      const stand = (made: unknown, values: ReadonlyArray<unknown>) =>
        Effect.isEffect(made) ? around(made as Effect.Effect<unknown, E, R>, String(property), values) : made
      const member: unknown = Reflect.get(target, property)
      if (typeof member !== "function") return stand(member, [])
      return (...values: ReadonlyArray<unknown>) => stand(Reflect.apply(member, target, values), values)
    }
  })

/** Each call by its repository as well, like `deliveries.lease`. */
export const aroundStore = (store: StoreService, around: Around): StoreService => {
  const { check, isFailing, wakeups, ...repositories } = store
  const all = Object.entries(repositories).map(([noun, repository]) => [
    noun,
    aroundCalls<object, StoreUnavailable, never>(repository, (call, name, values) =>
      around(call, `${noun}.${name}`, values)
    )
  ])
  return { ...store, ...Object.fromEntries(all) }
}
