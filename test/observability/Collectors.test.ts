import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { makeCollectors, type Sample } from "../../src/layers/observability/Collectors.ts"
import { DeliveryHealth } from "../../src/services/DeliveryHealth.ts"
import { Readiness } from "../../src/services/Readiness.ts"
import { Drain } from "../../src/services/Drain.ts"
import { Settings } from "../../src/services/Settings.ts"
import { Store, type StoreService, StoreUnavailable } from "../../src/services/Store.ts"
import { type SettingsOverrides, testSettings } from "../support/Settings.ts"
import { makeSteppedClock } from "../support/SteppedClock.ts"
import * as TestStore from "../support/TestStore.ts"

const collectorsOf = (change: (store: StoreService) => StoreService, settings: SettingsOverrides = {}) => {
  const changed = Layer.effect(Store, Effect.map(Store, change)).pipe(Layer.provide(TestStore.layer))
  const health = Layer.succeed(DeliveryHealth, {
    checks: Effect.succeed({ tracker: "degraded", tables: "off" } as const)
  })
  const world = Readiness.Default.pipe(
    Layer.provideMerge(changed),
    Layer.provideMerge(Layer.mergeAll(health, Drain.Default, Layer.succeed(Settings, testSettings(settings))))
  )
  return Effect.flatMap(Layer.build(world), (context) => Effect.provide(makeCollectors, context))
}

const valueOf = (
  samples: ReadonlyArray<Sample>,
  name: string,
  labels: Readonly<Record<string, string>> = {}
): number | undefined =>
  samples.find(
    (sample) =>
      sample.metric.name === name &&
      Object.entries(labels).every(([key, value]) => sample.labels[key] === value)
  )?.value

describe("Collectors", () => {
  it.scoped.each([
    ["fails", Effect.fail(new StoreUnavailable({ problem: { kind: "writes_failing" } })), "failed"],
    ["hangs", Effect.uninterruptible(Effect.never), "degraded"]
  ] as ReadonlyArray<readonly [string, Effect.Effect<never, StoreUnavailable>, string]>)(
    "omit a store that %s, and take 3 s at most",
    function* ([, away, state]) {
      const collect = yield* collectorsOf((store) => ({
        ...store,
        check: away,
        usage: { size: away, pool: store.usage.pool },
        deliveries: { ...store.deliveries, counts: away }
      }))
      const collecting = yield* Effect.fork(collect)
      yield* TestClock.adjust("3 seconds")
      const found = yield* Fiber.join(collecting)
      expect(valueOf(found, "music_store_up")).toBe(0)
      expect(valueOf(found, "music_check", { check: "database", state })).toBe(1)
      expect(valueOf(found, "music_deliveries")).toBeUndefined()
      expect(valueOf(found, "music_store_size_bytes")).toBeUndefined()
    }
  )

  it.scoped(
    "are read once for all scrapes within 2 s, also when the wall clock is set back by an hour",
    function* () {
      const { clock, step } = yield* makeSteppedClock
      let reads = 0
      const made = yield* collectorsOf((store) => ({
        ...store,
        deliveries: {
          ...store.deliveries,
          counts: Effect.suspend(() => {
            reads += 1
            return Effect.succeed([])
          })
        }
      }))
      const collect = Effect.withClock(made, clock)
      yield* Effect.all([collect, collect, collect], { concurrency: "unbounded" })
      yield* TestClock.adjust("1900 millis")
      yield* collect
      expect(reads).toBe(1)
      step(-3_600_000)
      yield* TestClock.adjust("200 millis")
      yield* collect
      expect(reads).toBe(2)
    }
  )

  it.scoped("return the ends of pauses, and 0 for a destination that is not paused", function* () {
    const tables = Option.some({
      url: "https://tables.example",
      keys: new Map([["musicclidaemon", Redacted.make("table-musicclidaemon")]] as const)
    })
    const tracker = Option.some({
      token: Redacted.make("token"),
      owner: "harbor",
      repository: "music",
      url: "https://tracker.example",
      reconcileSeconds: []
    })
    const found = yield* Effect.flatten(
      collectorsOf(
        (store) => ({
          ...store,
          destinations: {
            ...store.destinations,
            pauses: () =>
              Effect.succeed([
                { name: "tracker", reason: "pace", until: 90_000, lastFailure: Option.none() },
                { name: "tracker", reason: "ordinary_pace", until: 95_000, lastFailure: Option.none() },
                {
                  name: "table musicclidaemon",
                  reason: "settings",
                  until: 30_000,
                  lastFailure: Option.none()
                }
              ])
          }
        }),
        { tables, tracker }
      )
    )
    const pausedUntil = (destination: string, reason: string) =>
      valueOf(found, "music_destination_paused_until_timestamp_seconds", { destination, reason })
    expect(pausedUntil("tracker", "pace")).toBe(90)
    expect(pausedUntil("tracker", "ordinary_pace")).toBe(95)
    expect(pausedUntil("tracker", "failure")).toBe(0)
    expect(pausedUntil("tables", "failure")).toBe(0)
    expect(pausedUntil("table musicclidaemon", "settings")).toBe(30)
  })

  it.scoped("return the pool also while the database hangs", function* () {
    const collect = yield* collectorsOf((store) => ({
      ...store,
      check: Effect.never,
      usage: {
        size: Effect.never,
        pool: () => Option.some({ limit: 10, used: 10, idle: 0, waiting: 7 })
      }
    }))
    const collecting = yield* Effect.fork(collect)
    yield* TestClock.adjust("3 seconds")
    const found = yield* Fiber.join(collecting)
    expect(valueOf(found, "music_store_pool_connections", { state: "used" })).toBe(10)
    expect(valueOf(found, "music_store_pool_waiting")).toBe(7)
    expect(valueOf(found, "music_store_size_bytes")).toBeUndefined()
  })

  it.scoped("return the age of the oldest open delivery, and 0 for a state without deliveries", function* () {
    const collect = yield* collectorsOf((store) => ({
      ...store,
      deliveries: {
        ...store.deliveries,
        counts: Effect.succeed([{ kind: "report", state: "failed", count: 2 }]),
        oldestOpen: Effect.succeed(Option.some(10_000))
      }
    }))
    yield* TestClock.adjust(Duration.seconds(70))
    const found = yield* collect
    expect(valueOf(found, "music_delivery_oldest_seconds")).toBe(60)
    expect(valueOf(found, "music_deliveries", { kind: "report", state: "failed" })).toBe(2)
    expect(valueOf(found, "music_deliveries", { kind: "report", state: "waiting" })).toBe(0)
    expect(valueOf(found, "music_deliveries", { kind: "sweep", state: "failed" })).toBe(0)
    expect(valueOf(found, "music_check", { check: "tracker", state: "degraded" })).toBe(1)
    expect(valueOf(found, "music_check", { check: "tracker", state: "ok" })).toBe(0)
  })
})
