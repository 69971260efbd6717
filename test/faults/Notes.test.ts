/** A database that does not answer delays what may be lost by 2 s at most. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import { assert } from "vitest"
import { Notifications } from "../../src/services/usecases/Notifications.ts"
import { Planes } from "../../src/services/usecases/Planes.ts"
import { Sessions } from "../../src/services/usecases/Sessions.ts"
import { SimulatedIam } from "../world/SimulatedIam.ts"
import { type StoreMethod, StoreSwitches } from "../world/TestStore.ts"
import { callerKey, inRequest, production, scenario, signedIn } from "../world/UseCaseLayers.ts"

const login = Effect.gen(function* () {
  yield* signedIn()
  const slt = yield* (yield* SimulatedIam).slt({ actor: "si:deejay" })
  return (yield* Sessions).login(production, { slt, key: callerKey("login") })
})

const ting = Effect.gen(function* () {
  const { caller } = yield* signedIn()
  const { send, subscribe } = yield* Notifications
  const sent = { type: "music.trigger.fired", key: "si:deejay/1", data: {} }
  return Effect.zipRight(subscribe(production, caller), send(production, caller, sent))
})

const testing = Effect.gen(function* () {
  const { plane } = yield* (yield* SimulatedIam).environment("one")
  return (yield* Planes).resolve(plane._tag === "Testing" ? Option.some(plane.secret) : Option.none())
})

const notes: ReadonlyArray<readonly [StoreMethod, typeof login | typeof ting | typeof testing]> = [
  ["recipients.activate", login],
  ["loginOutcomes.record", login],
  ["recipients.isActive", ting],
  ["planes.remember", testing]
]

scenario.each(notes)("A %s that hangs delays the request by 2 s", function* ([method, prepare]) {
  const request: Effect.Effect<unknown, unknown> = yield* prepare
  const held = yield* (yield* StoreSwitches).hold(method)
  const startedAt = yield* Clock.currentTimeMillis
  const answered = inRequest()(request).pipe(Effect.zipRight(Clock.currentTimeMillis))
  const fiber = yield* Effect.fork(Effect.zipLeft(answered, held.release))
  yield* held.arrived
  yield* TestClock.adjust("10 seconds")
  assert.strictEqual((yield* Fiber.join(fiber)) - startedAt, 2_000)
})
