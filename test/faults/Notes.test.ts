/** A database that does not answer delays what may be lost by 2 s at most. */
import { Clock, Effect, Fiber, TestClock } from "effect"
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
