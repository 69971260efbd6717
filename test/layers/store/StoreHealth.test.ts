/** Readiness by what the accesses of a real file show, over a switch that delays or fails them. */
import { assert, describe } from "vitest"
import { it } from "../../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Metric from "effect/Metric"
import * as TestClock from "effect/TestClock"
import { join } from "node:path"
import type { Database } from "../../../src/layers/store/Database.ts"
import { run } from "../../../src/layers/store/Query.ts"
import { makeStoreHealth } from "../../../src/layers/store/StoreHealth.ts"
import { openDatabase } from "../../../src/layers/store/sqlite/SqliteStore.ts"
import { storeWritesFailed } from "../../../src/services/Metrics.ts"
import { type StoreProblem, StoreUnavailable } from "../../../src/services/Store.ts"
import { folder } from "./Stores.ts"

type Fault = { readonly millis: number; readonly problem?: StoreProblem }

/** A database whose accesses take so long, and end so. */
const faulty = Effect.gen(function* () {
  const real = yield* openDatabase(join(yield* folder, "music.sqlite"))
  let fault: Fault = { millis: 0 }
  const hindered = <A>(access: Effect.Effect<A, StoreUnavailable>): Effect.Effect<A, StoreUnavailable> =>
    Effect.suspend(() => {
      const { millis, problem } = fault
      const result = problem === undefined ? access : Effect.fail(new StoreUnavailable({ problem }))
      return millis === 0 ? result : Effect.delay(result, millis)
    })
  const database: Database = {
    ...real,
    read: (operation, query) => hindered(real.read(operation, query)),
    write: (operation, body, committed) => hindered(real.write(operation, body, committed))
  }
  const health = makeStoreHealth(database)
  const query = () => run(health.database.sql`SELECT 1`)
  return {
    ...health,
    be: (next: Fault) => {
      fault = next
    },
    read: health.database.read("test", query()),
    write: health.database.write("test", query)
  }
})

const failedWrites = Effect.map(Metric.value(storeWritesFailed({})), ({ count }) => count)

const failed = <A>(access: Effect.Effect<A, StoreUnavailable>, millis: number) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.fork(Effect.flip(access))
    yield* TestClock.adjust(millis)
    return yield* Fiber.join(fiber)
  })

describe("The health of a database", () => {
  it.scoped(
    "an access without an answer shows a failure unless another one succeeded meanwhile",
    function* () {
      const { be, isFailing, read, write } = yield* faulty
      yield* read
      be({ millis: 10_000, problem: { kind: "timed_out" } })
      const slow = yield* Effect.fork(Effect.flip(read))
      yield* TestClock.adjust(5_000)
      be({ millis: 0 })
      yield* read
      yield* TestClock.adjust(5_000)
      yield* Fiber.join(slow)
      assert.isFalse(isFailing())

      be({ millis: 10_000, problem: { kind: "canceled" } })
      yield* failed(read, 10_000)
      assert.isTrue(isFailing())
      be({ millis: 0 })
      yield* read
      assert.isFalse(isFailing())

      // Another process holds the lock: reads succeed.
      be({ millis: 5_000, problem: { kind: "locked" } })
      yield* failed(write, 5_000)
      be({ millis: 0 })
      yield* read
      assert.isTrue(isFailing())
      yield* write
      assert.isFalse(isFailing())
    }
  )

  it.scoped("a refused write counts until a probe succeeds, whatever else succeeds", function* () {
    const { be, check, isFailing, read, write } = yield* faulty
    be({ millis: 0, problem: { kind: "read_only" } })
    yield* Effect.flip(write)
    be({ millis: 0 })
    yield* read
    yield* write
    assert.isTrue(isFailing())
    yield* check
    assert.isFalse(isFailing())
  })

  for (const access of ["read", "write"] as const)
    it.scoped(`a corruption that a ${access} meets fails every later check and write`, function* () {
      const { be, check, ...accesses } = yield* faulty
      be({ millis: 0, problem: { kind: "corrupt" } })
      for (let at = 0; at < 2; at += 1) yield* Effect.flip(accesses[access])
      be({ millis: 0 })
      yield* accesses.read
      const before = yield* failedWrites
      const kinds = [yield* Effect.flip(check), yield* Effect.flip(accesses.write)]
      assert.strictEqual((yield* failedWrites) - before, 1)
      assert.deepStrictEqual(
        kinds.map(({ problem }) => problem.kind),
        ["corrupt", "corrupt"]
      )
    })

  it.scoped("a malformed row is no corruption of the database", function* () {
    const { be, check, read, write } = yield* faulty
    be({ millis: 0, problem: { kind: "row_malformed" } })
    yield* Effect.flip(read)
    be({ millis: 0 })
    yield* check
    yield* write
  })
})
