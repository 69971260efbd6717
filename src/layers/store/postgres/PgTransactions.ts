/** How a transaction begins. Everything that it relies on is set inside it, so that a pooler may give each one another session. */
import * as Option from "effect/Option"
import { parseAddress } from "./PgAddress.ts"

/** Milliseconds; the server enforces them. Zero is no limit. */
export interface TransactionLimits {
  readonly statement_timeout: number
  readonly lock_timeout: number
  /** Frees the locks of a process that hangs. */
  readonly idle_in_transaction_session_timeout: number
}

/**
 * Independent of the server's defaults. READ COMMITTED: after waiting for a lock, a statement sees the changes of its previous
 * holder. READ WRITE: a standby refuses at once.
 */
const mode = "ISOLATION LEVEL READ COMMITTED READ WRITE"

/** A commit waits for the disk, also where the server's default is not to wait. */
const synchronousCommit = "set_config('synchronous_commit', CASE now WHEN 'off' THEN 'on' ELSE now END, true)"

/** Parameters of the address, which take precedence. */
const givenIn = (address: string): URLSearchParams =>
  Option.match(parseAddress(address), {
    onNone: () => new URLSearchParams(),
    onSome: ({ searchParams }) => searchParams
  })

/** Statements without parameters, which go to the server in one message. */
export const beginOf = (address: string, limits: TransactionLimits): string => {
  const given = givenIn(address)
  const set = Object.entries(limits)
    .filter(([name]) => !given.has(name))
    .map(([name, value]) => `set_config('${name}', '${value}', true)`)
  return `BEGIN ${mode}; SELECT ${[synchronousCommit, ...set].join(", ")} FROM current_setting('synchronous_commit') AS now`
}
