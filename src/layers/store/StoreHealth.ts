/** The store over a database, with what the database shows about itself. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { recordNow, storeCorrupt, storeWritesFailed } from "../../services/Metrics.ts"
import { monotonicMillis, unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { type Database, makeRepositories, type StoreService, StoreUnavailable } from "../../services/Store.ts"
import { checkSchema, emptyWrite } from "./migrations/Migrations.ts"

const failedWrites = storeWritesFailed({})
const corruptDatabase = storeCorrupt({})

/**
 * The database's accesses are observed.
 *
 * - A write that fails, mostly for want of an answer, shows nothing when another one succeeded meanwhile: then the database is busy.
 * - After a corruption, `check` and all writes fail until the process ends: a backup will be restored, and it would not hold what
 *   was accepted meanwhile. A malformed row is no corruption: the others can be used.
 */
const observe = (database: Database) => {
  /** Monotonic milliseconds of the last successful write. */
  let wroteAt = Number.NEGATIVE_INFINITY
  let failing = false
  let corrupt = false
  recordNow(corruptDatabase, 0)

  const refuse = (operation: string) =>
    new StoreUnavailable({ database: database.name, operation, kind: "corrupt" })

  const latchCorruption = ({ kind, reason }: StoreUnavailable): Effect.Effect<void> => {
    if (kind !== "corrupt" || corrupt) return Effect.void
    corrupt = true
    recordNow(corruptDatabase, 1)
    return Effect.logError(
      "The database is corrupt: this server is not ready and writes nothing until it is restarted. Stop all servers, restore a backup, start them",
      { reason }
    )
  }

  /** Of an access that failed. */
  const recordFailure = (startedAt: number): void => {
    if (wroteAt < startedAt) failing = true
  }

  const observed: Database = {
    ...database,
    read: (operation, query) => Effect.tapError(database.read(operation, query), latchCorruption),
    write: (lane) => (operation, body, committed) =>
      Effect.clockWith((clock) => {
        const startedAt = unsafeMonotonicMillis(clock)
        return Effect.matchEffect(
          corrupt ? Effect.fail(refuse(operation)) : database.write(lane)(operation, body, committed),
          {
            onSuccess: (result) => {
              wroteAt = unsafeMonotonicMillis(clock)
              return Effect.succeed(result)
            },
            onFailure: (error) => {
              recordNow(failedWrites, 1)
              recordFailure(startedAt)
              return Effect.zipRight(latchCorruption(error), Effect.fail(error))
            }
          }
        )
      })
  }

  const check = Effect.gen(function* () {
    if (corrupt) return yield* refuse("Store.check")
    const startedAt = yield* monotonicMillis
    yield* checkSchema(observed).pipe(
      Effect.zipRight(observed.write("schema")("Store.check", emptyWrite(database.sql))),
      Effect.tapBoth({
        onSuccess: () => Effect.sync(() => (failing = false)),
        onFailure: () => Effect.sync(() => recordFailure(startedAt))
      })
    )
  })

  return { database: observed, check, isFailing: () => corrupt || failing }
}

/** The store over a database whose migrations have run. */
export const makeStore = (database: Database): Effect.Effect<StoreService, never, Scope.Scope> => {
  const { check, database: observed, isFailing } = observe(database)
  return Effect.map(makeRepositories(observed), (repositories) => ({ ...repositories, check, isFailing }))
}
