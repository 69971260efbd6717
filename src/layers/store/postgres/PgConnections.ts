/** The connections of one process, from a server that may refuse further ones at any time. */
import * as Either from "effect/Either"
import type pg from "pg"
import type { PoolUse } from "../../../services/Store.ts"
import { isConnectionRefused, waitExceeded } from "../StoreErrors.ts"

export interface ConnectionsOptions {
  readonly most: number
  /** Milliseconds for which an access waits for a connection. */
  readonly wait: number
  /** The server refuses a connection, and this process has none. */
  readonly onStarving: () => void
}

export interface PgConnections {
  /** A free connection, or a new one. Fails when none is had in time, or a new one cannot be opened. */
  readonly acquire: () => Promise<Either.Either<pg.PoolClient, unknown>>
  /** A discarded connection is closed. */
  readonly release: (client: pg.PoolClient, discard: boolean) => void
  /** The server has lately refused a connection: only accesses should ask for one. */
  readonly isRefused: () => boolean
  readonly usage: () => PoolUse
}

interface Waiter {
  readonly resolve: (outcome: Either.Either<pg.PoolClient, unknown>) => void
}

/** Milliseconds. After a refusal, one process asks for one new connection at a time, with pauses; sooner when it has none. */
const pauses = { having: 1_000, starving: 250 }
/** Milliseconds without a refusal after which the server is believed to give connections again. */
const refusalMemory = 10_000
/** Milliseconds between two connections that are given back. */
const returnPause = 1_000

const noneInTime = () => Object.assign(new Error("no connection in time"), { code: waitExceeded })

/** A timer as a flag: set until it ends. It does not keep the process running. */
const makeFlag = (onEnd: () => void = () => undefined) => {
  let timer: NodeJS.Timeout | undefined
  return {
    isSet: () => timer !== undefined,
    set: (millis: number) => {
      clearTimeout(timer)
      timer = setTimeout(() => {
        timer = undefined
        onEnd()
      }, millis).unref()
    }
  }
}

/**
 * Accesses wait in order. Where the server refuses further connections, they share those that there are. While that lasts, a
 * process closes one of several each second, so that another process without any gets one.
 */
export const makeConnections = (
  pool: pg.Pool,
  { most, onStarving, wait }: ConnectionsOptions
): PgConnections => {
  const waiting: Array<Waiter> = []
  let used = 0
  /** Attempts that take an idle connection, and those that open one. */
  let fetching = 0
  let opening = 0
  let refusal: unknown
  const refused = makeFlag()
  const shared = makeFlag()
  const pausing = makeFlag(() => assign())

  const serve = (client: pg.PoolClient) => {
    const next = waiting.shift()
    if (next === undefined) {
      client.release()
      return
    }
    used += 1
    next.resolve(Either.right(client))
  }

  const fail = (waiter: Waiter, error: unknown) => {
    const at = waiting.indexOf(waiter)
    if (at === -1) return
    waiting.splice(at, 1)
    waiter.resolve(Either.left(error))
  }

  const refuse = (error: unknown) => {
    refusal = error
    refused.set(refusalMemory)
    const starving = used + pool.idleCount === 0
    pausing.set(starving ? pauses.starving : pauses.having)
    if (starving) onStarving()
  }

  /** Whichever access is first gets the connection; a failure is one of the access that asked for it. */
  const attempt = (waiter: Waiter, idle: boolean) => {
    const count = (change: 1 | -1) => {
      if (idle) fetching += change
      else opening += change
    }
    count(1)
    void pool.connect().then(
      (client) => {
        count(-1)
        serve(client)
        assign()
      },
      (error: unknown) => {
        count(-1)
        if (isConnectionRefused(error)) refuse(error)
        else fail(waiter, error)
        assign()
      }
    )
  }

  const mayOpen = () =>
    used + fetching + opening < most && !pausing.isSet() && (!refused.isSet() || opening === 0)

  const assign = (): void => {
    for (;;) {
      const waiter = waiting[fetching + opening]
      const idle = pool.idleCount > fetching
      if (waiter === undefined || (!idle && !mayOpen())) return
      attempt(waiter, idle)
    }
  }

  return {
    acquire: () =>
      new Promise((resolve) => {
        const waiter: Waiter = {
          resolve: (outcome) => {
            clearTimeout(timer)
            resolve(outcome)
          }
        }
        const timer = setTimeout(() => fail(waiter, refused.isSet() ? refusal : noneInTime()), wait)
        waiting.push(waiter)
        assign()
      }),
    release: (client, discard) => {
      const give = !discard && refused.isSet() && !shared.isSet() && used + pool.idleCount > 1
      if (give) {
        shared.set(returnPause)
        // The others ask more often.
        pausing.set(pauses.having)
      }
      used -= 1
      client.release(discard || give)
      assign()
    },
    isRefused: refused.isSet,
    // An access whose connection is being opened uses it already.
    usage: () => ({
      limit: most,
      used: used + fetching + opening,
      idle: pool.idleCount - fetching,
      waiting: Math.max(0, waiting.length - fetching - opening)
    })
  }
}
