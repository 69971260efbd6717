/** A write that may be lost delays the response by 2 s at most. */
import { assert, describe } from "vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import { Notifications } from "../../src/services/Notifications.ts"
import { Planes } from "../../src/services/Planes.ts"
import { Sessions } from "../../src/services/Sessions.ts"
import { SimulatedIam } from "../support/SimulatedIam.ts"
import { type StoreMethod, StoreSwitches } from "../support/TestStore.ts"
import { callerKey, inRequest, production, scenario, signedIn } from "../support/UseCaseLayers.ts"

/** Seconds that the effect takes while this method of the store hangs. */
const heldIn = <A, E, R>(method: StoreMethod, effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const switches = yield* StoreSwitches
    const held = yield* switches.hold(method)
    const startedAt = yield* Clock.currentTimeMillis
    const fiber = yield* Effect.fork(
      Effect.zipLeft(
        Effect.flatMap(effect, () => Clock.currentTimeMillis),
        held.release
      )
    )
    yield* held.arrived
    yield* TestClock.adjust("10 seconds")
    return ((yield* Fiber.join(fiber)) - startedAt) / 1_000
  })

describe("A database that does not answer", () => {
  for (const method of ["recipients.activate", "loginOutcomes.record"] as const)
    scenario(`delays a login by 2 s at most in ${method}`, function* () {
      const iam = yield* SimulatedIam
      const sessions = yield* Sessions
      yield* signedIn()
      const slt = yield* iam.slt({ actor: "si:deejay" })
      const took = yield* heldIn(
        method,
        inRequest()(sessions.login(production, { slt, key: callerKey("login") }))
      )
      assert.strictEqual(took, 2)
    })

  scenario("delays a ting by 2 s at most", function* () {
    const { caller } = yield* signedIn()
    const notifications = yield* Notifications
    const took = yield* heldIn(
      "recipients.isActive",
      inRequest()(
        notifications.subscribe(production, caller).pipe(
          Effect.zipRight(
            notifications.send(production, caller, {
              type: "music.trigger.fired",
              key: "si:deejay/1",
              data: {}
            })
          )
        )
      )
    )
    assert.strictEqual(took, 2)
  })

  scenario("delays a request in a testing plane by 2 s at most", function* () {
    const iam = yield* SimulatedIam
    const { plane } = yield* iam.environment("one")
    const planes = yield* Planes
    const secret = plane._tag === "Testing" ? Option.some(plane.secret) : Option.none()
    const took = yield* heldIn("planes.remember", inRequest()(planes.resolve(secret)))
    assert.strictEqual(took, 2)
  })
})
