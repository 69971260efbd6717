import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/TestClock"
import { makeRetention } from "../../../src/layers/delivery/Retention.ts"
import { Store } from "../../../src/services/Store.ts"
import { freshStore, sampleEvent } from "../store/Stores.ts"

const day = 86_400_000

describe("The cleaning of what was kept long enough", () => {
  it.scoped("follows the settings in days, hour by hour, and keeps for ever at 0", () =>
    Effect.gen(function* () {
      const store = yield* freshStore
      yield* store.webhooks.receive(sampleEvent({ receivedAt: 0 }), [])
      const worker = yield* makeRetention({ reportsDays: 0, webhooksDays: 1, deliveriesDays: 0 }).pipe(
        Effect.flatten,
        Effect.provide(Layer.succeed(Store, store)),
        Effect.fork
      )
      yield* TestClock.adjust(day)
      assert.isFalse(
        yield* store.webhooks.receive(sampleEvent({ receivedAt: 0 }), []),
        "a day is not more than a day"
      )
      yield* TestClock.adjust(3_600_000)
      assert.isTrue(yield* store.webhooks.receive(sampleEvent({ receivedAt: 2 * day }), []))
      yield* Fiber.interrupt(worker)
    })
  )
})
