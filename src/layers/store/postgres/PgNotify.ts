/** `LISTEN` and `NOTIFY`: what one process commits wakes the workers of all. */
import { randomUUID } from "node:crypto"
import type { SqlClient } from "@effect/sql/SqlClient"
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import * as Schedule from "effect/Schedule"
import pg from "pg"
import type { Dialect, Work } from "../Database.ts"
import { openFailed } from "../StoreErrors.ts"

const channel = "music_backend"
const works: ReadonlyArray<Work> = ["deliveries", "spool"]

export interface Listening {
  readonly name: string
  readonly client: pg.ClientConfig
  /** Milliseconds between two proofs that the connection still lives; 10 s when not given. */
  readonly proofEvery?: number
  /** Milliseconds in which it must prove it; 5 s when not given. */
  readonly proofWithin?: number
  /** Milliseconds before listening is tried again; 1 s when not given. */
  readonly pause?: number
}

export const pgNotify = (
  sql: SqlClient,
  { client: config, name, pause = 1_000, proofEvery = 10_000, proofWithin = 5_000 }: Listening
): Pick<Dialect, "announce" | "announced"> => {
  /** A process does not wake itself: its own workers know already. */
  const own = randomUUID()

  const connect = Effect.acquireRelease(
    Effect.sync(() => new pg.Client({ ...config, query_timeout: proofWithin, keepAlive: true })),
    (client) => Effect.sync(() => client.end(() => undefined))
  )

  /** Listens until the connection is lost, and fails then. */
  const listen = (heard: (work: Work) => void, listening: Effect.Effect<void>) =>
    Effect.gen(function* () {
      const lost = yield* Deferred.make<never, unknown>()
      const client = yield* connect
      const failed = (error: unknown) => Deferred.unsafeDone(lost, Effect.fail(error))
      client.on("error", failed)
      client.on("end", () => failed(new Error("Connection terminated")))
      client.on("notification", ({ payload = "" }) => {
        const [work, from] = payload.split(" ")
        const known = works.find((one) => one === work)
        if (known !== undefined && from !== own) heard(known)
      })
      yield* Effect.tryPromise({ try: () => client.connect(), catch: (error) => error })
      const ask = (statement: string) =>
        Effect.tryPromise({ try: () => client.query(statement), catch: (error) => error })
      yield* ask(`LISTEN ${channel}`)
      yield* listening
      // Behind a router that forgot it, a connection stays silent for ever.
      const proofs = Effect.forever(Effect.zipRight(Effect.sleep(proofEvery), ask("SELECT 1")))
      yield* Effect.raceFirst(Deferred.await(lost), proofs)
    }).pipe(Effect.scoped)

  return {
    announce: (work) => Effect.asVoid(sql`SELECT pg_notify(${channel}, ${`${work} ${own}`})`),
    announced: (heard) =>
      Effect.gen(function* () {
        const tried = yield* Deferred.make<void>()
        const deaf = yield* Ref.make(false)
        const listening = Effect.gen(function* () {
          // Whoever asked has waited for the first time, and missed nothing; later, what was announced before is not told again.
          if (yield* Deferred.succeed(tried, undefined)) return
          works.forEach(heard)
          if (yield* Ref.getAndSet(deaf, false))
            yield* Effect.logInfo("Other processes are heard again", { database: name })
        })
        const silent = (error: unknown) =>
          Effect.gen(function* () {
            yield* Deferred.succeed(tried, undefined)
            if (!(yield* Ref.getAndSet(deaf, true)))
              yield* Effect.logWarning(
                "Other processes are not heard: workers find work at their next look",
                {
                  reason: openFailed(name, error).reason
                }
              )
          })
        yield* listen(heard, listening).pipe(
          Effect.sandbox,
          Effect.tapError((cause) => silent(Cause.squash(cause))),
          Effect.retry(Schedule.jittered(Schedule.spaced(pause))),
          Effect.ignore,
          Effect.forkScoped
        )
        yield* Deferred.await(tried)
      })
  }
}
