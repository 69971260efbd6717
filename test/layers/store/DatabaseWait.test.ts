/** A server whose database is away at its start. */
import { assert } from "vitest"
import { it } from "../../world/Test.ts"
import { Effect, Fiber, TestClock } from "effect"
import { waitForDatabase } from "../../../src/layers/store/StoreFromSettings.ts"
import { type StoreFailureKind, StoreUnavailable } from "../../../src/services/Store.ts"

it.scoped.each<readonly [StoreFailureKind, failures: number, waited: number]>([
  ["unanswered", 13, 12],
  ["unanswered", 100, 60],
  ["other", 1, 0]
])("%s in %d attempts: waits %d s", function* ([kind, failures, waited]) {
  const seen = { attempts: 0, open: 0 }
  const open = Effect.gen(function* () {
    seen.attempts += 1
    yield* Effect.acquireRelease(
      Effect.sync(() => (seen.open += 1)),
      () => Effect.sync(() => (seen.open -= 1))
    )
    if (seen.attempts <= failures) return yield* new StoreUnavailable({ kind })
  })
  const fiber = yield* Effect.fork(Effect.either(waitForDatabase(open)))
  yield* TestClock.adjust(`${Math.max(0, waited - 1)} seconds`)
  if (waited > 0) assert.isTrue((yield* Fiber.poll(fiber))._tag === "None")
  yield* TestClock.adjust("2 seconds")
  const opened = failures === 13
  assert.strictEqual((yield* Fiber.join(fiber))._tag, opened ? "Right" : "Left")
  // What a failed attempt has opened is freed.
  assert.strictEqual(seen.open, opened ? 1 : 0)
})
