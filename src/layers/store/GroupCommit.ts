/** Simultaneous writes share a transaction, and so one sync of the disk. Each is answered after its COMMIT. */
import { TransactionConnection } from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import { SqlError } from "@effect/sql/SqlError"
import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Runtime from "effect/Runtime"
import type * as Scope from "effect/Scope"
import { StoreUnavailable } from "../../services/Store.ts"
import { waitWithinDeadline } from "./RequestDeadline.ts"
import type { Statements } from "./Statements.ts"
import { type DatabaseFailure, isConnectionLost, isStandby } from "./StoreErrors.ts"

/** How a database runs a transaction. */
export interface Transactions {
  /** A connection until the scope closes. Fails where the database must not be used now. */
  readonly reserve: Effect.Effect<Connection, DatabaseFailure, Scope.Scope>
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

/**
 * Commits all of `body` or nothing. Fails when the transaction did not begin, and else returns how it ended. `operations` name it in
 * the server's list of sessions.
 *
 * Not `sql.withTransaction`: there a failed COMMIT is a defect, and the COMMIT of an aborted transaction, which Postgres answers with a
 * successful ROLLBACK, is a success.
 */
export const makeTransaction =
  ({ begin, isCommitted, reserve }: Transactions, lane: string) =>
  <A>(
    operations: Iterable<string>,
    body: Effect.Effect<A, DatabaseFailure, TransactionConnection>
  ): Effect.Effect<Exit.Exit<A, DatabaseFailure>, DatabaseFailure> =>
    Effect.gen(function* () {
      const connection = yield* reserve
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
      const exit = yield* body.pipe(
        Effect.provideService(TransactionConnection, [connection, 0]),
        Effect.zipLeft(committed),
        Effect.exit
      )
      if (Exit.isFailure(exit)) yield* rollBack(connection, exit.cause)
      return exit
    }).pipe(Effect.scoped, Effect.uninterruptible)

/** A turn of the event loop: callers of the same turn join the group, and other work runs between two groups. */
const turn = Effect.async<void>((resume) => {
  setImmediate(() => resume(Effect.void))
})

/** An item until it is settled. */
export interface Waiting<A, B, E> {
  readonly item: A
  readonly settle: (exit: Exit.Exit<B, E>) => void
  hasLeft: boolean
}

const closed = () =>
  new StoreUnavailable({ kind: "other", details: { phrase: "is closed", fix: "start the server again" } })

/** A worker that hangs does not keep a process from stopping. */
const closeWithin = "5 seconds"

/**
 * Hands items to one worker, all at once that wait for it. An interrupted or late caller withdraws its item; what the worker has goes
 * on. When the scope closes, what waits is still worked on, and a later item fails.
 */
export const makeGroups = <A, B, E>(
  work: (group: Arr.NonEmptyReadonlyArray<Waiting<A, B, E>>) => Effect.Effect<void>
): Effect.Effect<(item: A) => Effect.Effect<B, E | StoreUnavailable>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const fork = Runtime.runFork(yield* Effect.runtime<never>())
    const pending: Array<Waiting<A, B, E>> = []
    let worker: Fiber.RuntimeFiber<void> | undefined
    let isClosed = false
    const workOnAll = Effect.gen(function* () {
      while (pending.length > 0) {
        yield* turn
        const group = pending.splice(0).filter(({ hasLeft }) => !hasLeft)
        // A defect ends its own group: no caller waits for ever, and later ones are served.
        if (Arr.isNonEmptyReadonlyArray(group))
          yield* Effect.catchAllCause(work(group), (cause) =>
            Effect.sync(() => {
              for (const { settle } of group) settle(Exit.failCause(cause))
            })
          )
      }
      worker = undefined
    })
    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => {
        isClosed = true
        return worker === undefined ? Effect.void : Fiber.await(worker)
      }).pipe(Effect.interruptible, Effect.timeoutOption(closeWithin))
    )
    return (item) =>
      waitWithinDeadline<B, E | StoreUnavailable>((resume) => {
        const waiting: Waiting<A, B, E> = { item, settle: resume, hasLeft: false }
        if (isClosed) resume(Exit.fail(closed()))
        else {
          pending.push(waiting)
          worker ??= fork(workOnAll)
        }
        return () => {
          waiting.hasLeft = true
        }
      })
  })

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
 */
export const makeGroupCommit = (
  transactions: Transactions,
  lane: string
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
      Effect.forEach(group, ({ item }) => item.body, { discard: true })
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
          return Effect.zipRight(
            commitLater(write),
            Effect.suspend(() => Effect.orDie(result))
          )
        })
  )
}
