/** The store of a test: SQLite on a temporary file. It records every call and can fail named methods. */
import { Context, Effect, Layer } from "effect"
import { Store, type StoreService, StoreUnavailable } from "../../src/services/Store.ts"
import { aroundStore } from "./Around.ts"
import { makeFaultSwitches } from "./FaultSwitches.ts"
import { sqliteStore } from "./SqliteTemplate.ts"

type Repository = Exclude<keyof StoreService, "check" | "wakeups" | "retention">
/** Like `recipients.activate`. */
export type StoreMethod =
  | { [Name in Repository]: `${Name}.${keyof StoreService[Name] & string}` }[Repository]
  | "check"

const unavailable = new StoreUnavailable({ kind: "unanswered" })

const make = Effect.gen(function* () {
  const store = yield* Store
  const { around, ...faults } = makeFaultSwitches<StoreMethod, StoreUnavailable>()
  let hanging: Effect.Effect<void> | undefined
  let failing = false
  const watched: StoreService = {
    ...aroundStore(store, around),
    check: Effect.suspend(() => hanging ?? Effect.asVoid(around(store.check, "check", []))),
    isFailing: () => failing
  }
  const switches = {
    ...faults,
    /** Fails every later call of the method. */
    breakDown: (method: StoreMethod) =>
      faults.failNext(method, unavailable, { times: Number.POSITIVE_INFINITY }),
    /** Replaces every later check. */
    hang: (check: Effect.Effect<void>) =>
      Effect.sync(() => {
        hanging = check
      }),
    /** Whether accesses of the store fail, beside its checks. */
    fail: (now: boolean) =>
      Effect.sync(() => {
        failing = now
      })
  }
  return { watched, switches }
})

export class StoreSwitches extends Context.Tag("test/StoreSwitches")<
  StoreSwitches,
  Effect.Effect.Success<typeof make>["switches"]
>() {}

const wrapped = Layer.effectContext(
  Effect.map(make, ({ switches, watched }) =>
    Context.make(Store, watched).pipe(Context.add(StoreSwitches, switches))
  )
)

export const layer: Layer.Layer<Store | StoreSwitches> = Layer.provide(
  wrapped,
  Layer.orDie(Layer.scoped(Store, sqliteStore))
)
