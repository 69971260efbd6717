/** Simultaneous writes share a transaction, and so one sync of the disk. Each is answered after its COMMIT. */
import { TransactionConnection } from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import { SqlError } from "@effect/sql/SqlError"
import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Runtime from "effect/Runtime"
import type * as Scope from "effect/Scope"
import { makeGroups, type Waiting } from "../../services/store/Groups.ts"
import { Sending, type Statements } from "../../services/store/Statements.ts"
import { type DatabaseFailure, isConnectionLost, isStandby } from "./StoreErrors.ts"

/** How a database runs a transaction. */
export interface Transactions {
  /** Runs the use with a connection of its own. Fails where the database must not be used now. */
  readonly withConnection: <A, E>(
    use: (connection: Connection) => Effect.Effect<A, E>
  ) => Effect.Effect<A, E | DatabaseFailure>
  /** Whether statements may be sent before earlier ones of their transaction are answered, because after a failure none has an effect. */
  readonly pipelines: boolean
  /** Statements without parameters that begin a transaction of this lane. */
  readonly begin: (lane: string) => string
  /** Whether this is the answer to a COMMIT that committed. */
  readonly isCommitted: (answer: unknown) => boolean
}

/** The answer to the COMMIT of an aborted transaction, as the error that it is. */
const rolledBack = Object.assign(new Error("Rolled back"), { code: "25P02" })

/** SQLite may have rolled back already. A server that became a standby ends the session: the next one is opened with its successor. */
export const rollBack = (
  connection: Connection,
  cause: Cause.Cause<DatabaseFailure>
): Effect.Effect<void> => {
  const isMoved = Option.exists(Cause.failureOption(cause), isStandby)
  return Effect.ignore(
    connection.executeRaw(isMoved ? "SELECT pg_terminate_backend(pg_backend_pid())" : "ROLLBACK", [])
  )
}

type Ended = Exit.Exit<void, DatabaseFailure>

/** Sends without waiting; answers are in the order of sending. */
const sendInto =
  (sent: Array<Fiber.Fiber<Ended>>): Context.Tag.Service<Sending> =>
  (statement) =>
    Effect.map(Effect.runtime<TransactionConnection>(), (runtime) => {
      sent.push(Runtime.runFork(runtime)(Effect.exit(statement), { immediate: true }))
    })

/**
 * Commits all of `body` or nothing. Fails when the transaction did not begin, and else returns how it ended. `operations` name it in
 * the server's list of sessions.
 *
 * Not `sql.withTransaction`: there a failed COMMIT is a defect, and the COMMIT of an aborted transaction, which Postgres answers with a
 * successful ROLLBACK, is a success.
 */
export const makeTransaction =
  ({ begin, isCommitted, pipelines, withConnection }: Transactions, lane: string) =>
  <A>(
    operations: Iterable<string>,
    body: Effect.Effect<A, DatabaseFailure, TransactionConnection>
  ): Effect.Effect<Exit.Exit<A, DatabaseFailure>, DatabaseFailure> =>
    withConnection(
      Effect.fnUntraced(function* (connection) {
        const opening = `/* ${[...new Set(operations)].sort().join(" ")} */ ${begin(lane)}`
        // Unprepared, because groups have many texts. After a failed ROLLBACK the last transaction is still there.
        yield* Effect.tapErrorCause(
          Effect.suspend(() => connection.executeUnprepared(opening, [], undefined)),
          (cause) => rollBack(connection, cause)
        )
        const committed = Effect.filterOrFail(
          connection.executeRaw("COMMIT", []),
          isCommitted,
          () => new SqlError({ cause: rolledBack, message: "Failed to commit" })
        )
        const sent: Array<Fiber.Fiber<Ended>> = []
        const ended = yield* body.pipe(
          Effect.provideService(TransactionConnection, [connection, 0]),
          (statements) =>
            pipelines ? Effect.provideService(statements, Sending, sendInto(sent)) : statements,
          Effect.zipLeft(committed),
          Effect.exit
        )
        let exit = ended
        // The first failure counts: what followed it failed for it.
        for (const statement of sent.reverse()) {
          const answer = yield* Fiber.join(statement)
          if (Exit.isFailure(answer)) exit = Exit.failCause(answer.cause)
        }
        if (Exit.isFailure(exit)) yield* rollBack(connection, exit.cause)
        return exit
      })
    ).pipe(Effect.uninterruptible)

/** A write of one caller. */
interface Write {
  readonly operation: string
  readonly body: Statements<void>
  /** Runs after the COMMIT, also when the caller has left. */
  readonly committed: () => void
}

/** Commits `body` in the next transaction, and then runs `committed`. */
export type Commit = <A>(
  operation: string,
  body: Statements<A>,
  committed?: (result: A) => void
) => Effect.Effect<A, DatabaseFailure>

/**
 * Commits writes together. A failed write, or a failed COMMIT, ends the transaction of its group, and each of them then runs alone. No
 * savepoints: after some errors SQLite ends the transaction itself, and the next savepoint would begin another one.
 *
 * The bodies run one after the other, or with `unbounded` at the same time on the one connection. All of them end before the transaction does:
 * it cannot be interrupted.
 */
export const makeGroupCommit = (
  transactions: Transactions,
  lane: string,
  concurrency: 1 | "unbounded" = 1
): Effect.Effect<Commit, never, Scope.Scope> => {
  const transaction = makeTransaction(transactions, lane)
  type Waiter = Waiting<Write, void, DatabaseFailure>
  const settle = ({ item, settle }: Waiter, exit: Exit.Exit<void, DatabaseFailure>): void => {
    settle(exit)
    if (Exit.isSuccess(exit)) item.committed()
  }
  const alone = (waiter: Waiter) =>
    Effect.map(Effect.exit(Effect.flatten(transaction([waiter.item.operation], waiter.item.body))), (exit) =>
      settle(waiter, exit)
    )
  const together = (group: Arr.NonEmptyReadonlyArray<Waiter>): Effect.Effect<void> => {
    if (group.length === 1) return alone(group[0])
    const settleAll = (exit: Exit.Exit<void, DatabaseFailure>) =>
      Effect.sync(() => {
        for (const waiter of group) settle(waiter, exit)
      })
    return transaction(
      Arr.map(group, ({ item }) => item.operation),
      Effect.forEach(group, ({ item }) => item.body, { concurrency, discard: true })
    ).pipe(
      Effect.matchEffect({
        onFailure: (notBegun) => settleAll(Exit.fail(notBegun)),
        onSuccess: (exit) =>
          // Without an answer of the database the COMMIT may have happened.
          Exit.isSuccess(exit) || Option.exists(Cause.failureOption(exit.cause), isConnectionLost)
            ? settleAll(exit)
            : Effect.forEach(group, alone, { discard: true })
      })
    )
  }

  return Effect.map(
    makeGroups(together),
    (commitLater): Commit =>
      (operation, body, committed = () => undefined) =>
        Effect.suspend(() => {
          let result = Option.none<Effect.Effect.Success<typeof body>>()
          const kept = Effect.map(body, (value) => {
            result = Option.some(value)
          })
          const write = { operation, body: kept, committed: () => Option.map(result, committed) }
          return Effect.map(commitLater(write), () => Option.getOrThrow(result))
        })
  )
}
