import { assert, describe } from "vitest"
import { it } from "../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as TestClock from "effect/TestClock"
import { waitForDatabase } from "../../../src/layers/store/DatabaseWait.ts"
import { StoreUnavailable } from "../../../src/services/Store.ts"
import type { StoreProblem } from "../../../src/services/store/StoreUnavailable.ts"

/** Opens after some failed attempts; counts what is open. */
const opening = (problem: StoreProblem, failures: number) => {
  const lines: Array<string> = []
  const seen = { attempts: 0, open: 0, lines }
  const open = Effect.gen(function* () {
    seen.attempts += 1
    yield* Effect.acquireRelease(
      Effect.sync(() => (seen.open += 1)),
      () => Effect.sync(() => (seen.open -= 1))
    )
    if (seen.attempts <= failures) return yield* new StoreUnavailable({ problem })
  })
  const waiting = waitForDatabase(open).pipe(
    Effect.provide(
      Logger.replace(
        Logger.defaultLogger,
        Logger.make(({ message }) => {
          seen.lines.push(String(Array.isArray(message) ? message[0] : message))
        })
      )
    )
  )
  return { seen, waiting }
}

const never = Number.POSITIVE_INFINITY

describe("A server whose database is away at the start", () => {
  it.scoped("opens it when it answers, and holds only what that attempt opened", function* () {
    const { seen, waiting } = opening({ kind: "unreachable" }, 12)
    const fiber = yield* Effect.fork(waiting)
    yield* TestClock.adjust("11 seconds")
    assert.isTrue((yield* Fiber.poll(fiber))._tag === "None")
    yield* TestClock.adjust("1 second")
    yield* Fiber.join(fiber)
    const waits = ["Waiting for the database", "Waiting for the database"]
    deepStrictEqual(seen, { attempts: 13, open: 1, lines: [...waits, "The database answers"] })
  })

  it.scoped("fails after 60 s, and says so every 10 s until then", function* () {
    const { seen, waiting } = opening({ kind: "timed_out" }, never)
    const fiber = yield* Effect.fork(waiting)
    yield* TestClock.adjust("59 seconds")
    assert.isTrue((yield* Fiber.poll(fiber))._tag === "None")
    yield* TestClock.adjust("2 seconds")
    assert.isTrue(Exit.isFailure(yield* Fiber.await(fiber)))
    deepStrictEqual([seen.open, seen.lines.length], [0, 7])
  })

  const lasting: ReadonlyArray<StoreProblem> = [
    { kind: "login_refused" },
    { kind: "no_such_database" },
    { kind: "parameter_refused" },
    { kind: "shared_sessions" },
    { kind: "server_too_old", version: "13.9" },
    { kind: "wrong_encoding", encoding: "LATIN1" }
  ]
  for (const problem of lasting)
    it.scoped(`does not wait for the end of ${problem.kind}`, function* () {
      const { seen, waiting } = opening(problem, never)
      assert.strictEqual((yield* Effect.flip(waiting)).problem, problem)
      deepStrictEqual(seen, { attempts: 1, open: 0, lines: [] })
    })
})
