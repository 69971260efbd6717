/** A pool of connections to a server that may go away and come back at any time. An access is one effect. */
import * as SqlClient from "@effect/sql/SqlClient"
import { SqlError } from "@effect/sql/SqlError"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import pg from "pg"
import type { Dialect, Transaction } from "../Database.ts"
import { first, Query, type Rows, type Steps } from "../Query.ts"
import { Whole } from "../repositories/Rows.ts"
import { waitWithinDeadline } from "../RequestDeadline.ts"
import { withCamelCase } from "../RowNames.ts"
import type { TraceStatement } from "../StatementSpans.ts"
import { type DatabaseFailure, isConnectionLost } from "../StoreErrors.ts"
import type { PgConnections } from "./PgPool.ts"

type Outcome<A> = Exit.Exit<A, DatabaseFailure>

/** A connection while one access uses it. */
interface Session {
  readonly ask: (text: string, values?: ReadonlyArray<unknown>) => Promise<Either.Either<Answer, SqlError>>
  /** The pool would reuse a connection with a pending answer or an open transaction; it closes this one instead. */
  readonly discard: () => void
}

/** Of the last statement that was sent. */
type Answer = Pick<pg.QueryResult<Record<string, unknown>>, "command" | "rows">

const failed = (cause: unknown) => new SqlError({ cause, message: "Failed to execute statement" })

const isLost = (cause: Cause.Cause<DatabaseFailure>): boolean =>
  Option.exists(Cause.failureOption(cause), isConnectionLost)

/** The comment shows the operation to the server's administrator, in `pg_stat_activity`. */
const named = (operation: string, statement: string) => `/* ${operation} */ ${statement}`

/** Without parameters, so that it can be sent together with the BEGIN. */
const lockStatement = (name: string) =>
  // Postgres stores no NUL, so no row's name has one.
  `SELECT pg_advisory_xact_lock(hashtextextended(${pg.escapeLiteral(name.replaceAll("\0", ""))}, 0))`

const noRows: Rows = []

const Size = Schema.Struct({ data: Whole })

const ended = <A>(result: Either.Either<A, DatabaseFailure>): Outcome<A> =>
  Either.isRight(result) ? Exit.succeed(result.right) : Exit.fail(result.left)

/** Sends statements, and keeps the first failure: the later ones fail because of it. */
const makeSender = ({ ask }: Session, trace: TraceStatement) => {
  let failure: SqlError | undefined
  return {
    send: async (text: string, values?: ReadonlyArray<unknown>): Promise<Answer | undefined> => {
      const end = trace(text)
      const answer = await ask(text, values)
      end()
      if (Either.isRight(answer)) return answer.right
      failure ??= answer.left
      return undefined
    },
    hasFailed: () => failure !== undefined,
    failedFirst: () => Exit.fail(failure ?? failed(new Error("Rolled back")))
  }
}

/** Postgres answers the COMMIT of a failed transaction with a successful ROLLBACK. */
const isCommitted = (answer: Answer | undefined): boolean => answer?.command === "COMMIT"

/** A transaction of one statement: all that its transaction needs is sent at once. Without its BEGIN the statement would commit alone. */
const runQuery = async <A>(
  session: Session,
  begin: string,
  { decode, statement }: Query<A>,
  trace: TraceStatement
): Promise<Outcome<A>> => {
  const { failedFirst, send } = makeSender(session, trace)
  const [text, values] = statement.compile()
  const [, answer, committed] = await Promise.all([send(begin), send(text, values), send("COMMIT")])
  return answer !== undefined && isCommitted(committed)
    ? ended(decode(withCamelCase(answer.rows)))
    : failedFirst()
}

/**
 * Sends the statements of one transaction. Only rows that are used are waited for: after a failed statement the server ignores
 * the later ones, and nothing is committed.
 */
const runSteps = async <A>(
  session: Session,
  begin: string,
  steps: Steps<A>,
  trace: TraceStatement
): Promise<Outcome<A>> => {
  const { failedFirst, hasFailed, send } = makeSender(session, trace)
  let next = steps.next()
  const opening = next.done !== true && next.value._tag === "Lock" ? next.value.name : undefined
  const begun = await send(opening === undefined ? begin : `${begin}; ${lockStatement(opening)}`)
  if (begun === undefined) return failedFirst()
  if (opening !== undefined) next = steps.next(noRows)

  while (next.done !== true) {
    const step = next.value
    let rows = noRows
    switch (step._tag) {
      case "Failure":
        return Exit.fail(step.error)
      case "Lock":
        void send(lockStatement(step.name))
        break
      case "Statement": {
        const answer = send(step.text, step.values)
        if (!step.rowsUsed) break
        const used = await answer
        if (used === undefined) return failedFirst()
        rows = withCamelCase(used.rows)
      }
    }
    next = steps.next(rows)
  }
  // A statement that the client could not send has not failed the transaction of the server.
  if (hasFailed()) return failedFirst()
  return isCommitted(await send("COMMIT")) ? Exit.succeed(next.value) : failedFirst()
}

/** One connection for one access. A lost one is closed, and the pool opens another one when it is needed. */
const useSession = async <A>(
  connections: PgConnections,
  use: (session: Session) => Promise<Outcome<A>>
): Promise<Outcome<A>> => {
  const connected = await connections.acquire()
  if (Either.isLeft(connected)) return Exit.fail(failed(connected.left))
  const client = connected.right
  let discarded = false
  const discard = () => {
    discarded = true
  }
  client.on("error", discard)
  const ask: Session["ask"] = (text, values = []) =>
    new Promise((resolve) => {
      client.query(text, [...values], (cause: Error | null, result: Answer | ReadonlyArray<Answer>) => {
        const answer = Array.isArray(result) ? result.at(-1) : result
        resolve(cause === null || cause === undefined ? Either.right(answer) : Either.left(failed(cause)))
      })
    })
  const exit = await use({ ask, discard }).catch((defect: unknown) => Exit.die(defect))
  if (Exit.isFailure(exit) && isLost(exit.cause)) discard()
  client.off("error", discard)
  client.release(discarded)
  return exit
}

/** Ends the transaction of a failed access; a connection that cannot is closed. */
const rollBackFailed = async <A>(session: Session, running: Promise<Outcome<A>>): Promise<Outcome<A>> => {
  const exit = await running.catch((defect: unknown) => Exit.die(defect))
  if (Exit.isFailure(exit) && !isLost(exit.cause) && Either.isLeft(await session.ask("ROLLBACK")))
    session.discard()
  return exit
}

/** `begin` begins a transaction. */
export const pgDialect = (connections: PgConnections, sql: SqlClient.SqlClient, begin: string): Dialect => {
  /** An interrupted or late caller does not wait, and the access runs to its end: a request to cancel a statement could cancel the next one. */
  const access = <A>(use: (session: Session) => Promise<Outcome<A>>): Effect.Effect<A, DatabaseFailure> =>
    waitWithinDeadline((resume) => {
      void useSession(connections, use).then(resume)
      return () => undefined
    })

  const write = async <A>(
    session: Session,
    { body, operation }: Transaction<A>,
    trace: TraceStatement
  ): Promise<Outcome<A>> => {
    const asked = body()
    const opening = named(operation, begin)
    return rollBackFailed(
      session,
      asked instanceof Query
        ? runQuery(session, opening, asked, trace)
        : runSteps(session, opening, asked, trace)
    )
  }

  /** In a transaction too, whose limits end a statement after its caller has left. */
  const read = <A>(query: Query<A>, trace: TraceStatement) =>
    access((session) => rollBackFailed(session, runQuery(session, begin, query, trace)))

  return {
    read,
    write: (transaction, trace) =>
      access(async (session) => {
        const exit = await write(session, transaction, trace)
        if (Exit.isSuccess(exit)) transaction.committed(exit.value)
        return exit
      }),
    skipLocked: sql.literal("FOR UPDATE SKIP LOCKED"),
    groupsWrites: false,
    size: (trace) =>
      read(
        first(Size)(sql`SELECT pg_database_size(current_database()) AS data`).map((found) => ({
          data: Option.match(found, { onNone: () => 0, onSome: ({ data }) => data }),
          file: Option.none()
        })),
        trace
      ),
    pool: () => Option.some(connections.usage())
  }
}

/** A migration, which is an effect, in a transaction of its own under the lock of this name. */
export const migrateInTransaction = (
  sql: SqlClient.SqlClient,
  begin: string,
  lock: string,
  migration: Effect.Effect<void, DatabaseFailure>
): Effect.Effect<void, DatabaseFailure> =>
  Effect.gen(function* () {
    const connection = yield* sql.reserve
    const run = (statement: string) => connection.executeRaw(statement, [])
    yield* run(named("Store.migrate", begin))
    const exit = yield* run(lockStatement(lock)).pipe(
      Effect.zipRight(migration),
      Effect.provideService(SqlClient.TransactionConnection, [connection, 0]),
      Effect.zipRight(run("COMMIT")),
      Effect.asVoid,
      Effect.exit
    )
    if (Exit.isFailure(exit)) yield* Effect.ignore(run("ROLLBACK"))
    yield* exit
  }).pipe(Effect.scoped, Effect.uninterruptible)
