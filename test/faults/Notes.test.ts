/** A write that may be lost delays the response by 2 s at most. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import { assert, describe } from "vitest"
import { Notifications } from "../../src/services/Notifications.ts"
import { Planes } from "../../src/services/Planes.ts"
import { Sessions } from "../../src/services/Sessions.ts"
import { SimulatedIam } from "../support/SimulatedIam.ts"
import { type StoreMethod, StoreSwitches } from "../support/TestStore.ts"
import { callerKey, inRequest, production, scenario, signedIn } from "../support/UseCaseLayers.ts"

const login = Effect.gen(function* () {
  const sessions = yield* Sessions
  yield* signedIn()
  const slt = yield* (yield* SimulatedIam).slt({ actor: "si:deejay" })
  return sessions.login(production, { slt, key: callerKey("login") })
})

const ting = Effect.gen(function* () {
  const { caller } = yield* signedIn()
  const notifications = yield* Notifications
  const sent = { type: "music.trigger.fired", key: "si:deejay/1", data: {} }
  return Effect.zipRight(
    notifications.subscribe(production, caller),
    notifications.send(production, caller, sent)
  )
})

const testing = Effect.gen(function* () {
  const { plane } = yield* (yield* SimulatedIam).environment("one")
  const planes = yield* Planes
  return planes.resolve(plane._tag === "Testing" ? Option.some(plane.secret) : Option.none())
})

describe("A database that does not answer delays by 2 s at most", () => {
  /** Milliseconds that a request takes while this method of the store hangs. */
  const timed = <A, E>(method: StoreMethod, request: Effect.Effect<A, E>) =>
    Effect.gen(function* () {
      const held = yield* (yield* StoreSwitches).hold(method)
      const startedAt = yield* Clock.currentTimeMillis
      const answered = inRequest()(request).pipe(Effect.zipRight(Clock.currentTimeMillis))
      const fiber = yield* Effect.fork(Effect.zipLeft(answered, held.release))
      yield* held.arrived
      yield* TestClock.adjust("10 seconds")
      return (yield* Fiber.join(fiber)) - startedAt
    })

  scenario.each(["recipients.activate", "loginOutcomes.record"] as const)("a login: %s", function* (method) {
    assert.strictEqual(yield* timed(method, yield* login), 2_000)
  })
  scenario("a ting", function* () {
    assert.strictEqual(yield* timed("recipients.isActive", yield* ting), 2_000)
  })
  scenario("a request in a testing plane", function* () {
    assert.strictEqual(yield* timed("planes.remember", yield* testing), 2_000)
  })
})
