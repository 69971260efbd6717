/** What the accesses of a database show about it, for readiness. */
import type { SqlClient } from "@effect/sql/SqlClient"
import type { Statement } from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import { unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { recordNow, storeCorrupt, storeWritesFailed } from "../../services/Metrics.ts"
import { monotonicMillis } from "../../services/MonotonicTime.ts"
import { StoreUnavailable } from "../../services/Store.ts"
import type { Database } from "./Database.ts"
import { checkSchema, migrationsTable } from "./migrations/Migrations.ts"
import { run } from "./Query.ts"
import { isLasting } from "./StoreErrors.ts"
import { writeMark } from "./sqlite/ApplicationId.ts"

const failedWrites = storeWritesFailed({})
const corruptDatabase = storeCorrupt({})

/** Milliseconds: a write that lacks room or a right so soon after a successful probe contradicts the probe. */
const contradictionWindow = 60_000
/** Milliseconds without a failed write before a contradicted probe is tried again. */
const distrustPeriod = 30_000

/** A write that reaches the disk and changes nothing. */
export const emptyWrite = (sql: SqlClient): Statement<object> =>
  sql.onDialectOrElse({
    sqlite: () => sql.unsafe(writeMark),
    orElse: () => sql`UPDATE ${sql(migrationsTable)} SET name = name WHERE migration_id = 1`
  })

/** Accesses of one kind: whether one got no answer while no other succeeded. */
interface Answers {
  /** Monotonic milliseconds of the last success. */
  at: number
  missing: boolean
}

const makeAnswers = (): Answers => ({ at: Number.NEGATIVE_INFINITY, missing: false })

const recordAnswer = (answers: Answers, now: number): void => {
  answers.at = now
  answers.missing = false
}

export interface StoreHealth {
  /** The database, whose accesses are observed. After a corruption it takes no writes. */
  readonly database: Database
  /** Succeeds when the database answers, takes writes and has all migrations of this version. */
  readonly check: Effect.Effect<void, StoreUnavailable>
  /** Whether accesses failed for want of an answer, or writes were refused, and nothing has succeeded since. */
  readonly isFailing: () => boolean
}

/**
 * - After a failed write, `check` fails until a probe can write: a full or read-only database still reads, but a server on it is not
 *   ready. Successful writes prove nothing, since many change no row. The probe is small, so a nearly full disk may take it and
 *   refuse larger writes: while those keep failing, `check` fails without a probe.
 * - A single slow access shows nothing. An access that ends without an answer does, when no other one of its kind succeeded from
 *   its beginning on.
 * - After a corruption, `check` and all writes fail until the process ends: a backup will be restored, and it would not hold what
 *   was accepted meanwhile. A malformed row (`row_malformed`) is no corruption: the others can be used.
 */
export const makeStoreHealth = (database: Database): StoreHealth => {
  const { sql } = database
  const reads = makeAnswers()
  const writes = makeAnswers()
  let failures = 0
  /** Failures before the last successful probe, and its time. */
  let probedFailures = 0
  let provenAt = Number.NEGATIVE_INFINITY
  let distrustedUntil = Number.NEGATIVE_INFINITY
  /** A write failed for another reason than want of an answer, and no probe has succeeded since. */
  let refusing = false
  let corrupt = false
  recordNow(corruptDatabase, 0)

  const corruptError = (operation: string) =>
    new StoreUnavailable({ database: database.name, operation, problem: { kind: "corrupt" } })

  const recordFailure = (
    answers: Answers,
    startedAt: number,
    error: StoreUnavailable
  ): Effect.Effect<void> => {
    if (error.isUnanswered && answers.at < startedAt) answers.missing = true
    if (error.problem.kind !== "corrupt" || corrupt) return Effect.void
    corrupt = true
    recordNow(corruptDatabase, 1)
    return Effect.logError(
      "The database is corrupt: this server is not ready and writes nothing until it is restarted. Stop all servers, restore a backup, start them",
      { reason: error.reason }
    )
  }

  const recordFailedWrite = (error: StoreUnavailable, now: number): void => {
    recordNow(failedWrites, 1)
    failures += 1
    if (!error.isUnanswered) refusing = true
    const contradicts = isLasting(error) && now - provenAt < contradictionWindow
    if (contradicts || now < distrustedUntil) distrustedUntil = now + distrustPeriod
  }

  const read: Database["read"] = (operation, query) =>
    Effect.clockWith((clock) => {
      const startedAt = unsafeMonotonicMillis(clock)
      return Effect.matchEffect(database.read(operation, query), {
        onSuccess: (result) => {
          recordAnswer(reads, unsafeMonotonicMillis(clock))
          return Effect.succeed(result)
        },
        onFailure: (error) => Effect.zipRight(recordFailure(reads, startedAt, error), Effect.fail(error))
      })
    })

  const write: Database["write"] = (operation, body, committed) =>
    Effect.clockWith((clock) => {
      if (corrupt) {
        recordNow(failedWrites, 1)
        return Effect.fail(corruptError(operation))
      }
      const startedAt = unsafeMonotonicMillis(clock)
      return Effect.matchEffect(database.write(operation, body, committed), {
        onSuccess: (result) => {
          const now = unsafeMonotonicMillis(clock)
          recordAnswer(reads, now)
          recordAnswer(writes, now)
          return Effect.succeed(result)
        },
        onFailure: (error) => {
          recordFailedWrite(error, unsafeMonotonicMillis(clock))
          return Effect.zipRight(recordFailure(writes, startedAt, error), Effect.fail(error))
        }
      })
    })

  const observed: Database = { ...database, read, write }
  const probe = write("Store.check", () => run(emptyWrite(sql)))

  const writable = Effect.gen(function* () {
    const before = failures
    if (before === probedFailures) return
    if ((yield* monotonicMillis) < distrustedUntil)
      return yield* new StoreUnavailable({ database: database.name, problem: { kind: "writes_failing" } })
    yield* probe
    provenAt = yield* monotonicMillis
    probedFailures = before
    if (failures === before) refusing = false
  })

  return {
    database: observed,
    check: Effect.suspend(() =>
      corrupt ? Effect.fail(corruptError("Store.check")) : Effect.zipRight(checkSchema(observed), writable)
    ),
    isFailing: () => corrupt || refusing || reads.missing || writes.missing
  }
}
