/** `LISTEN` and `NOTIFY`: a commit of one process wakes the workers of all. */
import { randomUUID } from "node:crypto"
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import * as Schedule from "effect/Schedule"
import pg from "pg"
import type { Database } from "../Database.ts"
import type { WorkQueue } from "../Query.ts"
import { openFailed } from "../StoreErrors.ts"

const channel = "music_backend"
const queues: ReadonlyArray<WorkQueue> = ["deliveries", "spool"]

export interface NotifyOptions {
  readonly name: string
  readonly client: pg.ClientConfig
  /** Sets up the session. */
  readonly settings: string
  /** Whether connections are scarce: then none is opened to listen. Never by default. */
  readonly isScarce?: () => boolean
  /** Milliseconds between two checks that the connection is alive; default 10 s. */
  readonly checkEvery?: number
  /** Milliseconds for the answer to a check; default 5 s. */
  readonly checkWithin?: number
  /** Milliseconds before listening is tried again; default 1 s. */
  readonly pause?: number
}

export interface PgNotify extends Pick<Database, "notified"> {
  /** Part of a transaction: its commit notifies the other processes. */
  readonly statementFor: (queue: WorkQueue) => string
  /** Closes the listening connection, for accesses that get none. Listening begins again once connections are not scarce. */
  readonly giveUpConnection: () => void
}

/** In the form of the server's own errors. */
const scarce = Object.assign(new Error("no connection to listen"), { code: "53300" })
const ended = Object.assign(new Error("the listening connection ended"), { code: "08006" })

export const pgNotify = ({
  client: config,
  settings,
  isScarce = () => false,
  name,
  pause = 1_000,
  checkEvery = 10_000,
  checkWithin = 5_000
}: NotifyOptions): PgNotify => {
  /** Own notifications are ignored: the workers of this process were woken already. */
  const own = randomUUID()
  let giveUp = () => {}

  const connect = Effect.acquireRelease(
    Effect.sync(() => new pg.Client({ ...config, query_timeout: checkWithin, keepAlive: true })),
    (client) => Effect.sync(() => client.end(() => undefined))
  )

  /** Listens until the connection is lost, and fails then. */
  const listen = (heard: (queue: WorkQueue) => void, listening: Effect.Effect<void>) =>
    Effect.gen(function* () {
      if (isScarce()) return yield* Effect.fail(scarce)
      const lost = yield* Deferred.make<never, unknown>()
      const client = yield* connect
      const failed = (error: unknown) => Deferred.unsafeDone(lost, Effect.fail(error))
      giveUp = () => failed(scarce)
      client.on("error", failed)
      client.on("end", () => failed(ended))
      client.on("notification", ({ payload = "" }) => {
        const [queue, from] = payload.split(" ")
        const known = queues.find((one) => one === queue)
        if (known !== undefined && from !== own) heard(known)
      })
      yield* Effect.tryPromise({ try: () => client.connect(), catch: (error) => error })
      const ask = (statement: string) =>
        Effect.tryPromise({ try: () => client.query(statement), catch: (error) => error })
      yield* ask(`${settings}; LISTEN ${channel}`)
      yield* listening
      // A connection that a router has dropped stays silent for ever.
      const checks = Effect.forever(Effect.zipRight(Effect.sleep(checkEvery), ask("SELECT 1")))
      yield* Effect.raceFirst(Deferred.await(lost), checks)
    }).pipe(Effect.scoped)

  return {
    giveUpConnection: () => giveUp(),
    statementFor: (queue) => `SELECT pg_notify('${channel}', '${queue} ${own}')`,
    notified: (heard) =>
      Effect.gen(function* () {
        const tried = yield* Deferred.make<void>()
        const failing = yield* Ref.make(false)
        const listening = Effect.gen(function* () {
          // The first time nothing was missed; later, announcements in between are lost, so all workers are woken.
          if (yield* Deferred.succeed(tried, undefined)) return
          queues.forEach(heard)
          if (yield* Ref.getAndSet(failing, false))
            yield* Effect.logInfo("Notifications of other processes are received again", { database: name })
        })
        const onFailure = (error: unknown) =>
          Effect.gen(function* () {
            yield* Deferred.succeed(tried, undefined)
            if (!(yield* Ref.getAndSet(failing, true)))
              yield* Effect.logWarning(
                "Notifications of other processes are not received: workers find work at their next poll",
                {
                  reason: openFailed(name, error).reason
                }
              )
          })
        yield* listen(heard, listening).pipe(
          Effect.sandbox,
          Effect.tapError((cause) => onFailure(Cause.squash(cause))),
          Effect.retry(Schedule.jittered(Schedule.spaced(pause))),
          Effect.ignore,
          Effect.forkScoped
        )
        yield* Deferred.await(tried)
      })
  }
}
