import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import type { UpstreamKey } from "../../../../src/services/Iam.ts"
import { productionId } from "../../../../src/services/Plane.ts"
import { LoginOutcome } from "../../../../src/services/Store.ts"
import { onBoth } from "../Stores.ts"

// Keys are made by hashing; any text of their form will do.
const key = (digit: string) => digit.repeat(64) as UpstreamKey
const success = LoginOutcome.Registration({
  ting: { subscribed: true, subscription_id: "sub_1" },
  transient: false
})
const failure = LoginOutcome.Registration({
  ting: { subscribed: false, error: "forbidden" },
  transient: false
})
const outage = LoginOutcome.Registration({
  ting: { subscribed: false, error: "dependency_unavailable" },
  transient: true
})
const refusal = LoginOutcome.Refusal({ reason: "no_organization" })

onBoth("LoginOutcomes", ({ emptyPath, freshStore, openStore, rawQuery }) => {
  it.scoped("a recorded outcome is returned unchanged", function* () {
    const { loginOutcomes } = yield* freshStore
    yield* loginOutcomes.record(key("a"), productionId, success)
    yield* loginOutcomes.record(key("b"), "env-1", failure)
    yield* loginOutcomes.record(key("c"), productionId, outage)
    yield* loginOutcomes.record(key("d"), productionId, refusal)
    const found = yield* Effect.forEach(["a", "b", "c", "d"], (digit) => loginOutcomes.find(key(digit)))
    deepStrictEqual(found, [
      Option.some(success),
      Option.some(failure),
      Option.some(outage),
      Option.some(refusal)
    ])
  })

  it.scoped("a later outcome overwrites a transient failure and a refusal", function* () {
    const { loginOutcomes } = yield* freshStore
    const overwritten = [outage, refusal].flatMap((earlier) =>
      [success, outage, refusal].map((later) => [earlier, later] as const)
    )
    for (const [index, [earlier, later]] of overwritten.entries()) {
      yield* loginOutcomes.record(key(String(index)), productionId, earlier)
      yield* loginOutcomes.record(key(String(index)), productionId, later)
      deepStrictEqual(yield* loginOutcomes.find(key(String(index))), Option.some(later))
    }
  })

  it.scoped("the first permanent outcome stays", function* () {
    const { loginOutcomes } = yield* freshStore
    yield* loginOutcomes.record(key("a"), productionId, success)
    for (const later of [outage, failure, refusal]) yield* loginOutcomes.record(key("a"), productionId, later)
    deepStrictEqual(yield* loginOutcomes.find(key("a")), Option.some(success))
  })

  it.scoped("after 12 hours a record is not found, and is overwritten", function* () {
    const { loginOutcomes } = yield* freshStore
    yield* loginOutcomes.record(key("a"), productionId, success)
    yield* TestClock.adjust("43199999 millis")
    deepStrictEqual(yield* loginOutcomes.find(key("a")), Option.some(success))
    yield* TestClock.adjust("1 millis")
    deepStrictEqual(yield* loginOutcomes.find(key("a")), Option.none())
    yield* loginOutcomes.record(key("a"), productionId, failure)
    deepStrictEqual(yield* loginOutcomes.find(key("a")), Option.some(failure))
  })

  it.scoped("a registration that an earlier version writes over a refusal is returned", function* () {
    const path = yield* emptyPath
    const { loginOutcomes } = yield* openStore(path)
    yield* Effect.forEach(["a", "b"], (digit) => loginOutcomes.record(key(digit), productionId, refusal))
    // The statement of version 4, which does not know the column `refusal`.
    yield* rawQuery(
      path,
      `UPDATE login_outcomes SET subscribed = 1, subscription_id = 'sub_1', transient = 0
         WHERE upstream_key = '${key("a")}';
         UPDATE login_outcomes SET error = 'forbidden', transient = 0
         WHERE upstream_key = '${key("b")}'`
    )
    deepStrictEqual(yield* loginOutcomes.find(key("a")), Option.some(success))
    deepStrictEqual(yield* loginOutcomes.find(key("b")), Option.some(failure))
  })
})
