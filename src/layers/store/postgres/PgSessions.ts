/** The sessions of the program at the server: their settings, and whether a pooler lets each connection keep its own. */
import { randomUUID } from "node:crypto"
import * as Option from "effect/Option"
import pg from "pg"
import { parseAddress } from "./PgAddress.ts"

/** Milliseconds; the server enforces them. Zero is no limit. */
export interface SessionLimits {
  readonly statement_timeout: number
  readonly lock_timeout: number
  /** Frees the locks of a process that hangs. */
  readonly idle_in_transaction_session_timeout: number
}

/**
 * Independent of the server's defaults. READ COMMITTED: after waiting for a lock, a statement sees the changes of its previous
 * holder. READ WRITE: a standby refuses at once.
 */
export const transactionMode = "ISOLATION LEVEL READ COMMITTED READ WRITE"

/**
 * A commit waits for the disk, whatever the server's default. Always set in the session: a session that inherits the default
 * would follow a later change of it.
 */
const synchronousCommit =
  "set_config('synchronous_commit', CASE now WHEN 'off' THEN 'on' ELSE now END, false)"

/** Parameters of the address, which take precedence. */
const givenIn = (address: string): URLSearchParams =>
  Option.match(parseAddress(address), {
    onNone: () => new URLSearchParams(),
    onSome: ({ searchParams }) => searchParams
  })

/**
 * Sets up a session, in one round trip. Not parameters of the connection: poolers such as pgbouncer refuse those that they do
 * not know.
 */
export const sessionSettings = (address: string, limits: SessionLimits): string => {
  const given = givenIn(address)
  const set = Object.entries(limits)
    .filter(([name]) => !given.has(name))
    .map(([name, value]) => `set_config('${name}', '${value}', false)`)
  return [
    `SET SESSION CHARACTERISTICS AS TRANSACTION ${transactionMode}`,
    `SELECT ${[synchronousCommit, ...set].join(", ")} FROM current_setting('synchronous_commit') AS now`
  ].join("; ")
}

/** A setting that only this check knows; the server keeps it for the session. */
const mark = "music_backend.session"

/** Rounds of the check. In one, another client of a busy pooler may take the connection that would show it. */
const rounds = 3

interface Asking {
  readonly query: (text: string, values?: ReadonlyArray<string>) => Promise<pg.QueryResult>
}

const markOf = async (session: Asking): Promise<unknown> =>
  (await session.query(`SELECT current_setting('${mark}', true) AS mark`)).rows[0]?.mark

/** pgbouncer's code for its own errors: it refuses a transaction of several statements in statement mode. */
const isRefusedByPooler = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && error.code === "08P01"

/**
 * Whether the server's sessions move between connections, as they do behind a pooler in transaction or statement mode. Shown by
 * a mark in the session of one connection: the other one finds it, or while the other one is in a transaction, it is gone.
 * Neither happens when each connection has a session of its own.
 */
export const sharesSessions = async (one: Asking, other: Asking): Promise<boolean> => {
  for (let round = 0; round < rounds; round += 1) {
    const own = randomUUID()
    await one.query(`SELECT set_config('${mark}', $1, false)`, [own])
    if ((await markOf(other)) === own) return true
    const begun = await other
      .query("BEGIN")
      .catch((error: unknown) => (isRefusedByPooler(error) ? undefined : Promise.reject(error)))
    if (begun === undefined) return true
    const moved = (await markOf(other)) === own || (await markOf(one)) !== own
    await other.query("ROLLBACK")
    if (moved) return true
  }
  return false
}
