import type { SqlClient } from "@effect/sql/SqlClient"
import type { Fragment } from "@effect/sql/Statement"

/** Rows of the spool that nobody is shipping. A lease that ends after `latestEnd` was written by a clock that was ahead. */
export const unheld = (sql: SqlClient, now: number, latestEnd: number): Fragment =>
  sql`(lease_until IS NULL OR lease_until <= ${now} OR lease_until > ${latestEnd})`
