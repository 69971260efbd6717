/** A database that does not answer delays what may be lost by 2 s at most. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/TestClock"
import { assert } from "vitest"
import { loginAs } from "../world/Logins.ts"
import { StoreSwitches } from "../world/TestStore.ts"
import { inRequest, scenario } from "../world/UseCaseLayers.ts"

scenario("A write that hangs, and may be lost, delays a login by 2 s", function* () {
  const held = yield* (yield* StoreSwitches).hold("recipients.activate")
  const startedAt = yield* Clock.currentTimeMillis
  const answered = inRequest()(loginAs()).pipe(Effect.zipRight(Clock.currentTimeMillis))
  const fiber = yield* Effect.fork(Effect.zipLeft(answered, held.release))
  yield* held.arrived
  yield* TestClock.adjust("10 seconds")
  assert.strictEqual((yield* Fiber.join(fiber)) - startedAt, 2_000)
})
