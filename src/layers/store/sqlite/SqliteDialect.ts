/** One connection, one writer at a time. Simultaneous writes share a commit, in which each has a savepoint. */
import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type { StoreUnavailable } from "../../../services/Store.ts"
import type { Body, Dialect, Transaction } from "../Database.ts"
import { makeGroups } from "../GroupCommit.ts"
import { Query, type Rows, type Steps } from "../Query.ts"
import { withCamelCase } from "../RowNames.ts"
import type { TraceStatement } from "../StatementSpans.ts"
import type { DatabaseFailure } from "../StoreErrors.ts"
import type { SqliteConnection } from "./SqliteConnection.ts"

/** A caller's write until its commit. */
interface Write {
  readonly operation: string
  /** Runs the body, again when the transaction of its group failed; returns whether it succeeded. */
  readonly run: () => boolean
  /** Answers the caller with the result of the body, or with the failure of its transaction. */
  readonly settle: (failure?: DatabaseFailure) => void
}

const noRows: Rows = []

/** `problem` is why the opened file is not usable any more: it is closed, or the path leads to another one. */
export const sqliteDialect = (
  { execute, isInTransaction, sql }: SqliteConnection,
  problem: () => StoreUnavailable | undefined,
  size: Dialect["size"]
): Effect.Effect<Dialect, never, Scope.Scope> => {
  const ask = (
    text: string,
    values: ReadonlyArray<unknown>,
    trace: TraceStatement
  ): Either.Either<Rows, SqlError> => {
    const end = trace(text)
    const rows = Either.map(execute(text, values), withCamelCase)
    end()
    return rows
  }

  const runSteps = <A>(steps: Steps<A>, trace: TraceStatement): Either.Either<A, DatabaseFailure> => {
    let next = steps.next()
    while (next.done !== true) {
      const step = next.value
      if (step._tag === "Failure") return Either.left(step.error)
      if (step._tag === "Statement") {
        const rows = ask(step.text, step.values, trace)
        if (Either.isLeft(rows)) return Either.left(rows.left)
        next = steps.next(rows.right)
      }
      // A writer is alone.
      else next = steps.next(noRows)
    }
    return Either.right(next.value)
  }

  /** A defect of a body is its caller's: it does not reach the group. */
  const runBody = <A>(body: Body<A>, trace: TraceStatement): Exit.Exit<A, DatabaseFailure> => {
    try {
      const asked = body()
      const result = runSteps(asked instanceof Query ? asked[Symbol.iterator]() : asked, trace)
      return Either.isRight(result) ? Exit.succeed(result.right) : Exit.fail(result.left)
    } catch (defect) {
      return Exit.die(defect)
    }
  }

  const rollBack = (): void => {
    if (isInTransaction()) execute("ROLLBACK")
  }

  /** Takes the write lock first: after a read it might not be available any more. */
  const begin = () => {
    // If the last ROLLBACK failed.
    rollBack()
    return execute("BEGIN IMMEDIATE")
  }
  const savepointOf = ({ operation }: Write) => `SAVEPOINT "${operation}"`

  /** The only write of its transaction, so that each failure is its own. Returns the failure of the transaction. */
  const commitAlone = (write: Write): DatabaseFailure | undefined => {
    const begun = begin()
    if (Either.isLeft(begun)) return begun.left
    const named = execute(savepointOf(write))
    const ended = Either.isRight(named) && write.run() ? execute("COMMIT") : named
    // After some errors, such as a full disk, SQLite has done it already.
    rollBack()
    return Either.isLeft(ended) ? ended.left : undefined
  }

  /** Leaves nothing of a failed write in the transaction; false when that is not possible. */
  const runInSavepoint = (write: Write): boolean => {
    if (Either.isLeft(execute(savepointOf(write)))) return false
    const kept =
      write.run() || (isInTransaction() && Either.isRight(execute(`ROLLBACK TO "${write.operation}"`)))
    return kept && Either.isRight(execute(`RELEASE "${write.operation}"`))
  }

  /** False when the transaction failed after it began, so that nothing was committed. */
  const commitTogether = (writes: ReadonlyArray<Write>): boolean => {
    const committed = writes.every(runInSavepoint) && Either.isRight(execute("COMMIT"))
    rollBack()
    return committed
  }

  /** The failure of the transaction that all of them share; `alone` when each needs one of its own. */
  const tryTogether = (writes: ReadonlyArray<Write>): DatabaseFailure | "committed" | "alone" => {
    const gone = problem()
    if (gone !== undefined) return gone
    if (writes.length === 1) return "alone"
    const begun = begin()
    // A lock of another process says nothing about any write; each is retried.
    if (Either.isLeft(begun)) return begun.left
    return commitTogether(writes) ? "committed" : "alone"
  }

  const commit = (writes: ReadonlyArray<Write>): void => {
    const outcome = tryTogether(writes)
    // Alone, one of them, such as the largest one on a full disk, does not fail the others.
    for (const write of writes)
      write.settle(outcome === "alone" ? commitAlone(write) : outcome === "committed" ? undefined : outcome)
  }

  return Effect.map(
    makeGroups<Write>((writes, done) => {
      try {
        commit(writes)
      } finally {
        done()
      }
    }),
    (groups): Dialect => ({
      read: <A>(query: Query<A>, trace: TraceStatement) =>
        Effect.suspend((): Either.Either<A, DatabaseFailure> => {
          const gone = problem()
          if (gone !== undefined) return Either.left(gone)
          const [text, values] = query.statement.compile()
          return Either.flatMap(ask(text, values, trace), query.decode)
        }),
      write: <A>({ body, committed, operation }: Transaction<A>, trace: TraceStatement) =>
        Effect.async<A, DatabaseFailure>((resume) => {
          let result: Exit.Exit<A, DatabaseFailure> = Exit.die("The body has not run")
          const write: Write = {
            operation,
            run: () => {
              result = runBody(body, trace)
              return Exit.isSuccess(result)
            },
            settle: (failure) => {
              resume(failure === undefined ? result : Exit.fail(failure))
              if (failure === undefined && Exit.isSuccess(result)) committed(result.value)
            }
          }
          groups.add(write)
          return Effect.sync(() => groups.remove(write))
        }),
      skipLocked: sql.literal(""),
      groupsWrites: true,
      size,
      pool: Option.none
    })
  )
}

/**
 * A migration, which is an effect, in a transaction of its own. Not `sql.withTransaction`, which turns a failed COMMIT or ROLLBACK
 * into a defect. The fiber does not yield inside, so that the lock is held briefly.
 */
export const migrateInTransaction = (
  { execute, isInTransaction, sql }: SqliteConnection,
  migration: Effect.Effect<void, DatabaseFailure>
): Effect.Effect<void, DatabaseFailure> =>
  Effect.gen(function* () {
    const reserved = yield* sql.reserve
    const connection: typeof reserved = {
      ...reserved,
      // A full disk rolls everything back at once. The migrator's own rollback would then fail and hide why.
      executeUnprepared: (text, values, transform) =>
        text.startsWith("ROLLBACK TO") && !isInTransaction()
          ? Effect.succeed(noRows)
          : reserved.executeUnprepared(text, values, transform)
    }
    yield* execute("/* Store.migrate */ BEGIN IMMEDIATE")
    const exit = yield* migration.pipe(
      Effect.provideService(SqlClient.TransactionConnection, [connection, 0]),
      Effect.zipRight(Effect.suspend(() => execute("COMMIT"))),
      Effect.exit
    )
    if (isInTransaction()) execute("ROLLBACK")
    yield* exit
  }).pipe(Effect.scoped, Effect.uninterruptible, Effect.withMaxOpsBeforeYield(Number.MAX_SAFE_INTEGER))
