import { assert, describe } from "vitest"
import { it } from "../../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as TestClock from "effect/TestClock"
import { makeRetentionSweep } from "../../../src/layers/delivery/RetentionSweep.ts"
import { type Retention, Store, type StoreService, StoreUnavailable } from "../../../src/services/Store.ts"
import { makeSteppedClock } from "../../support/SteppedClock.ts"
import { freshStore } from "../store/Stores.ts"

const day = 86_400_000
const hour = 3_600_000
const minute = 60_000
const forEver = {
  reportsDays: 0,
  anonymousReportsDays: 0,
  webhooksDays: 0,
  deliveriesDays: 0,
  recipientsDays: 0
}

const start = (store: StoreService, settings: typeof forEver) =>
  makeRetentionSweep(settings).pipe(
    Effect.flatten,
    Effect.provide(Layer.succeed(Store, store)),
    Effect.provide(Logger.remove(Logger.defaultLogger)),
    Effect.forkScoped
  )

/** Records the bounds of each removal, newest last. */
const watch = (store: StoreService, instead: Partial<Retention> = {}) => {
  const seen: Array<readonly [string, number]> = []
  const record = (name: keyof Retention) => (before: number) =>
    Effect.suspend(() => {
      seen.push([name, before])
      return (instead[name] ?? store.retention[name])(before)
    })
  const retention: Retention = {
    reports: record("reports"),
    anonymousReports: record("anonymousReports"),
    webhooks: record("webhooks"),
    deliveries: record("deliveries"),
    recipients: record("recipients"),
    loginOutcomes: record("loginOutcomes"),
    sessionDigests: record("sessionDigests"),
    refusals: record("refusals")
  }
  return { seen, store: { ...store, retention } }
}

describe("Retention", () => {
  it.scoped(
    "follows the settings in days, with 0 for ever; keeps login outcomes for a day and refusals for 30 days",
    function* () {
      const { seen, store } = watch(yield* freshStore)
      yield* TestClock.setTime(100 * day)
      yield* start(store, {
        ...forEver,
        anonymousReportsDays: 7,
        webhooksDays: 50,
        deliveriesDays: 33,
        recipientsDays: 91
      })
      yield* TestClock.adjust(hour / 2)
      const days = seen.map(([name, before]) => [name, Math.floor((100 * day + hour / 2 - before) / day)])
      assert.sameDeepMembers(days, [
        ["webhooks", 50],
        ["anonymousReports", 7],
        ["deliveries", 33],
        ["recipients", 91],
        ["loginOutcomes", 1],
        ["sessionDigests", 0],
        ["refusals", 30]
      ])
    }
  )

  it.scoped("removes nothing while the clock is temporarily years ahead", function* () {
    const { seen, store } = watch(yield* freshStore)
    const { clock, step } = yield* makeSteppedClock
    yield* TestClock.setTime(100 * day)
    yield* Effect.withClock(start(store, { ...forEver, reportsDays: 30 }), clock)
    step(2_000 * day)
    yield* TestClock.adjust(5 * minute)
    assert.deepStrictEqual(seen, [])
    step(-2_000 * day)
    yield* TestClock.adjust(2 * hour)
    assert.isAbove(seen.length, 0)
    for (const [, before] of seen) assert.isBelow(before, 101 * day)
  })

  it.scoped("continues with the other kinds when one fails, and retries it", function* () {
    const { seen, store } = watch(yield* freshStore, {
      deliveries: () => Effect.fail(new StoreUnavailable({ problem: { kind: "unreachable" } })),
      webhooks: () => Effect.die("a mistake")
    })
    yield* start(store, { ...forEver, deliveriesDays: 1, webhooksDays: 1, reportsDays: 1 })
    yield* TestClock.adjust(hour / 2)
    const once = ["deliveries", "webhooks", "reports", "loginOutcomes", "sessionDigests", "refusals"]
    assert.deepStrictEqual(
      seen.map(([name]) => name),
      once
    )
    yield* TestClock.adjust(hour)
    assert.deepStrictEqual(
      seen.map(([name]) => name),
      [...once, ...once]
    )
  })

  it.scoped("works in small batches until nothing is left", function* () {
    let left = 3
    const { seen, store } = watch(yield* freshStore, {
      refusals: () =>
        Effect.sync(() => {
          left = Math.max(0, left - 1)
          return left
        })
    })
    yield* start(store, forEver)
    yield* TestClock.adjust(hour / 2)
    assert.strictEqual(seen.filter(([name]) => name === "refusals").length, 3)
  })
})
