/** A database that does not answer delays what may be lost by 2 s at most. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import { assert } from "vitest"
import { Planes } from "../../src/services/usecases/Planes.ts"
import type { Sessions } from "../../src/services/usecases/Sessions.ts"
import { loginAs } from "../world/Logins.ts"
import { prepared } from "../world/Sending.ts"
import { SimulatedIam } from "../world/SimulatedIam.ts"
import { type StoreMethod, StoreSwitches } from "../world/TestStore.ts"
import { inRequest, scenario } from "../world/UseCaseLayers.ts"

const login = Effect.succeed(loginAs())

const ting = Effect.map(prepared({ registered: false }), ({ send, subscribe }) =>
  Effect.zipRight(subscribe, send())
)

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
  const request: Effect.Effect<unknown, unknown, Sessions | SimulatedIam> = yield* prepare
  const held = yield* (yield* StoreSwitches).hold(method)
  const startedAt = yield* Clock.currentTimeMillis
  const answered = inRequest()(request).pipe(Effect.zipRight(Clock.currentTimeMillis))
  const fiber = yield* Effect.fork(Effect.zipLeft(answered, held.release))
  yield* held.arrived
  yield* TestClock.adjust("10 seconds")
  assert.strictEqual((yield* Fiber.join(fiber)) - startedAt, 2_000)
})
