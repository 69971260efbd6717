/** A server whose database is away at its start. */
import { assert } from "vitest"
import { it } from "../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as TestClock from "effect/TestClock"
import { waitForDatabase } from "../../../src/layers/store/StoreFromSettings.ts"
import { type StoreFailureKind, StoreUnavailable } from "../../../src/services/Store.ts"

const never = Number.POSITIVE_INFINITY
const cases: ReadonlyArray<readonly [StoreFailureKind, failures: number, waited: number, lines: number]> = [
  ["unanswered", 12, 12, 3],
  // It says so at every tenth attempt, and fails after 60 s.
  ["unanswered", never, 60, 7],
  ["schema", never, 0, 0],
  ["other", never, 0, 0]
]
it.scoped.each(cases)("%s in %d attempts: waits %d s", function* ([kind, failures, waited, lines]) {
  const seen = { attempts: 0, open: 0, lines: 0 }
  const open = Effect.gen(function* () {
    seen.attempts += 1
    yield* Effect.acquireRelease(
      Effect.sync(() => (seen.open += 1)),
      () => Effect.sync(() => (seen.open -= 1))
    )
    if (seen.attempts <= failures) return yield* new StoreUnavailable({ kind })
  })
  const logger = Logger.make(() => {
    seen.lines += 1
  })
  const fiber = yield* Effect.fork(
    Effect.either(waitForDatabase(open)).pipe(Effect.provide(Logger.replace(Logger.defaultLogger, logger)))
  )
  yield* TestClock.adjust(`${Math.max(0, waited - 1)} seconds`)
  if (waited > 0) assert.isTrue((yield* Fiber.poll(fiber))._tag === "None")
  yield* TestClock.adjust("2 seconds")
  const opened = failures === never ? "Left" : "Right"
  assert.strictEqual((yield* Fiber.join(fiber))._tag, opened)
  // What a failed attempt has opened is freed.
  deepStrictEqual([seen.open, seen.lines], [opened === "Right" ? 1 : 0, lines])
  if (waited === 0) assert.strictEqual(seen.attempts, 1)
})
