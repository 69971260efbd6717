/** The store of a test: SQLite on a temporary file. It records every call and can fail named methods. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Store, type StoreService, StoreUnavailable } from "../../src/services/Store.ts"
import { aroundStore } from "./Around.ts"
import { type Held, makeHold } from "./FaultSwitches.ts"
import { sqliteStore } from "./SqliteTemplate.ts"

type Repository = Exclude<keyof StoreService, "check" | "wakeups" | "retention">
/** Like `recipients.activate`. */
export type StoreMethod =
  | { [Name in Repository]: `${Name}.${keyof StoreService[Name] & string}` }[Repository]
  | "check"

interface StoreSwitchesService {
  /** Fails every later call of the method. */
  readonly breakDown: (method: StoreMethod) => Effect.Effect<void>
  readonly repair: (method: StoreMethod) => Effect.Effect<void>
  /** Pauses the next call of the method until it is released. */
  readonly hold: (method: StoreMethod) => Effect.Effect<Held>
  /** Replaces every later check. */
  readonly hang: (check: Effect.Effect<void>) => Effect.Effect<void>
  /** Whether accesses of the store fail, beside its checks. */
  readonly fail: (failing: boolean) => Effect.Effect<void>
  /** Arguments of every call of a method, oldest first. */
  readonly seen: (method: StoreMethod) => Effect.Effect<ReadonlyArray<ReadonlyArray<unknown>>>
}

export class StoreSwitches extends Context.Tag("test/StoreSwitches")<StoreSwitches, StoreSwitchesService>() {}

const unavailable = new StoreUnavailable({ kind: "unanswered" })

const wrapped = Layer.effectContext(
  Effect.gen(function* () {
    const store = yield* Store
    const broken = new Set<string>()
    const seen = new Map<string, Array<ReadonlyArray<unknown>>>()
    const holds = new Map<string, Effect.Effect<void>>()
    let hanging: Effect.Effect<void> | undefined
    let failing = false

    const watched = aroundStore(store, (call, method, args) =>
      Effect.suspend(() => {
        seen.set(method, [...(seen.get(method) ?? []), args])
        if (broken.has(method)) return Effect.fail(unavailable)
        const held = holds.get(method) ?? Effect.void
        holds.delete(method)
        return Effect.zipRight(held, call)
      })
    )
    return Context.make(Store, {
      ...watched,
      check: Effect.suspend(() =>
        broken.has("check") ? Effect.fail(unavailable) : (hanging ?? store.check)
      ),
      isFailing: () => failing
    }).pipe(
      Context.add(StoreSwitches, {
        breakDown: (method) => Effect.sync(() => broken.add(method)),
        repair: (method) => Effect.sync(() => broken.delete(method)),
        hold: (method) =>
          Effect.map(makeHold, ({ held, paused }) => {
            holds.set(method, paused)
            return held
          }),
        hang: (check) =>
          Effect.sync(() => {
            hanging = check
          }),
        fail: (now) =>
          Effect.sync(() => {
            failing = now
          }),
        seen: (method) => Effect.sync(() => seen.get(method) ?? [])
      })
    )
  })
)

export const layer: Layer.Layer<Store | StoreSwitches> = Layer.provide(
  wrapped,
  Layer.orDie(Layer.scoped(Store, sqliteStore))
)
