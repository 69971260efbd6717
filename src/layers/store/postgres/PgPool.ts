/** The connections of one process, from a server that may refuse further ones at any time. */
import { Socket } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Scope from "effect/Scope"
import pg from "pg"
import type { PoolUse } from "../../../services/Store.ts"
import { isConnectionRefused } from "../StoreErrors.ts"

/** Closes with the scope, for `closeWithin` milliseconds at most. */
export const openPool = (
  config: pg.PoolConfig,
  closeWithin: number
): Effect.Effect<pg.Pool, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => {
        const sockets = new Set<Socket>()
        const stream = () => {
          const socket = new Socket()
          sockets.add(socket)
          return socket.once("close", () => sockets.delete(socket))
        }
        // Statements are sent before earlier ones are answered.
        const pool = new pg.Pool({ ...config, stream, pipeline: true })
        // A connection that breaks while idle is replaced when the next one is needed.
        pool.on("error", () => undefined)
        return { pool, sockets }
      }),
      ({ pool, sockets }) =>
        Effect.promise(() => {
          // No access has begun on a connection that its server has not answered.
          for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy()
          return pool.end()
        }).pipe(Effect.interruptible, Effect.timeoutOption(closeWithin), Effect.ignore)
    ),
    ({ pool }) => pool
  )

export interface PgConnections {
  /** A free connection, or a new one. Fails when none is had in time, or a new one cannot be opened. */
  readonly acquire: () => Promise<Either.Either<pg.PoolClient, unknown>>
  readonly usage: () => PoolUse
}

/** Milliseconds. After a refusal an access asks again; all accesses share the open connections for longer. */
const refusalPause = 100
const sharingPeriod = 1_000

/** Where the server gives no further connection, accesses share those that there are, and wait `wait` milliseconds at most. */
export const makeConnections = (pool: pg.Pool, wait: number): PgConnections => {
  const { max } = pool.options
  let open = 0
  pool.on("connect", () => {
    open += 1
  })
  pool.on("remove", () => {
    open -= 1
  })
  const share = () => {
    pool.options.max = Math.max(1, open)
    setTimeout(() => {
      pool.options.max = max
    }, sharingPeriod).unref()
  }
  return {
    acquire: async () => {
      const until = performance.now() + wait
      for (;;) {
        const connected = await pool.connect().then(Either.right, Either.left)
        if (Either.isRight(connected) || !isConnectionRefused(connected.left) || performance.now() > until)
          return connected
        share()
        await sleep(refusalPause)
      }
    },
    usage: () => ({
      limit: max,
      used: pool.totalCount - pool.idleCount,
      idle: pool.idleCount,
      waiting: pool.waitingCount
    })
  }
}
