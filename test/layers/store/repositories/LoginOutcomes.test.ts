import { it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import type { UpstreamKey } from "../../../../src/services/Iam.ts"
import { productionId } from "../../../../src/services/Plane.ts"
import { onBoth } from "../Stores.ts"

// Keys are made by hashing; any text of their form will do.
const key = (digit: string) => digit.repeat(64) as UpstreamKey
const success = { subscribed: true, subscription_id: "sub_1" }
const refusal = { subscribed: false, error: "forbidden" }
const outage = { subscribed: false, error: "dependency_unavailable" }

onBoth("LoginOutcomes", ({ freshStore }) => {
  it.scoped("an unknown key has none", () =>
    Effect.gen(function* () {
      const { loginOutcomes } = yield* freshStore
      deepStrictEqual(yield* loginOutcomes.find(key("a")), Option.none())
    })
  )

  it.scoped("tells what was recorded, exactly", () =>
    Effect.gen(function* () {
      const { loginOutcomes } = yield* freshStore
      yield* loginOutcomes.record(key("a"), productionId, success, false)
      yield* loginOutcomes.record(key("b"), "env-1", refusal, false)
      yield* loginOutcomes.record(key("c"), productionId, outage, true)
      const found = yield* Effect.forEach([key("a"), key("b"), key("c")], loginOutcomes.find)
      deepStrictEqual(found, [
        Option.some({ outcome: success, transient: false }),
        Option.some({ outcome: refusal, transient: false }),
        Option.some({ outcome: outage, transient: true })
      ])
    })
  )

  it.scoped("a transient failure gives way to what comes later", () =>
    Effect.gen(function* () {
      const { loginOutcomes } = yield* freshStore
      yield* loginOutcomes.record(key("a"), productionId, outage, true)
      yield* loginOutcomes.record(key("a"), productionId, success, false)
      deepStrictEqual(
        yield* loginOutcomes.find(key("a")),
        Option.some({ outcome: success, transient: false })
      )
    })
  )

  it.scoped("the first lasting outcome stands", () =>
    Effect.gen(function* () {
      const { loginOutcomes } = yield* freshStore
      yield* loginOutcomes.record(key("a"), productionId, success, false)
      yield* loginOutcomes.record(key("a"), productionId, outage, true)
      yield* loginOutcomes.record(key("a"), productionId, refusal, false)
      deepStrictEqual(
        yield* loginOutcomes.find(key("a")),
        Option.some({ outcome: success, transient: false })
      )
    })
  )

  it.scoped("after half a day a record is of no login any more: it is not told, and gives way", () =>
    Effect.gen(function* () {
      const { loginOutcomes } = yield* freshStore
      yield* loginOutcomes.record(key("a"), productionId, success, false)
      yield* TestClock.adjust("43199999 millis")
      deepStrictEqual(
        yield* loginOutcomes.find(key("a")),
        Option.some({ outcome: success, transient: false })
      )
      yield* TestClock.adjust("1 millis")
      deepStrictEqual(yield* loginOutcomes.find(key("a")), Option.none())
      yield* loginOutcomes.record(key("a"), productionId, refusal, false)
      deepStrictEqual(
        yield* loginOutcomes.find(key("a")),
        Option.some({ outcome: refusal, transient: false })
      )
    })
  )
})
