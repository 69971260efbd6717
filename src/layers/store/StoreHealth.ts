/** The store over a database, with what the database shows about itself. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { recordNow, storeCorrupt, storeWritesFailed } from "../../services/Metrics.ts"
import { unsafeMonotonicMillis } from "../../services/MonotonicTime.ts"
import { type Database, makeRepositories, type StoreService, StoreUnavailable } from "../../services/Store.ts"
import { checkSchema, emptyWrite } from "./migrations/Migrations.ts"

const failedWrites = storeWritesFailed({})
const corruptDatabase = storeCorrupt({})

/**
 * The store over a database whose migrations have run. The accesses are observed.
 *
 * - A write that fails, mostly for want of an answer, shows nothing when another one succeeded meanwhile: then the database is busy.
 * - After a corruption, `check` and all writes fail until the process ends: a backup will be restored, and it would not hold what
 *   was accepted meanwhile. A malformed row is no corruption: the others can be used.
 */
export const makeStore = (database: Database): Effect.Effect<StoreService, never, Scope.Scope> => {
  const { name, sql } = database
  /** Monotonic milliseconds of the last successful write. */
  let wroteAt = Number.NEGATIVE_INFINITY
  let failing = false
  let corrupt = false
  recordNow(corruptDatabase, 0)

  const latchCorruption = ({ kind, reason }: StoreUnavailable): Effect.Effect<void> => {
    if (kind !== "corrupt" || corrupt) return Effect.void
    corrupt = true
    recordNow(corruptDatabase, 1)
    return Effect.logError(
      "The database is corrupt: this server is not ready and writes nothing until it is restarted. Stop all servers, restore a backup, start them",
      { reason }
    )
  }

  const observed: Database = {
    ...database,
    read: (operation) => (query) => Effect.tapError(database.read(operation)(query), latchCorruption),
    write: (lane, operation, committed) => (body) =>
      Effect.clockWith((clock) => {
        const startedAt = unsafeMonotonicMillis(clock)
        return Effect.matchEffect(
          corrupt
            ? Effect.fail(new StoreUnavailable({ database: name, operation, kind: "corrupt" }))
            : database.write(lane, operation, committed)(body),
          {
            onSuccess: (result) => {
              wroteAt = unsafeMonotonicMillis(clock)
              return Effect.succeed(result)
            },
            onFailure: (error) => {
              recordNow(failedWrites, 1)
              if (wroteAt < startedAt) failing = true
              return Effect.zipRight(latchCorruption(error), Effect.fail(error))
            }
          }
        )
      })
  }

  const check = Effect.zipRight(checkSchema(database), emptyWrite(sql)).pipe(
    observed.write("schema", "Store.check"),
    Effect.zipRight(
      Effect.sync(() => {
        failing = false
      })
    )
  )
  return Effect.map(makeRepositories(observed), (repositories) => ({
    ...repositories,
    check,
    isFailing: () => corrupt || failing
  }))
}
