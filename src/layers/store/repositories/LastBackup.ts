/** When the database was backed up last, as the command `backup` records it. */
import type * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Backups, StoreUnavailable } from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { first, run } from "../Query.ts"
import { Whole } from "./Rows.ts"

export const makeBackups = ({ read, sql }: Database): Backups => ({
  last: read(
    "Backups.last",
    first(Schema.Struct({ completedAt: Whole }))(sql`SELECT completed_at FROM last_backup WHERE id = 1`).map(
      Option.map(({ completedAt }) => completedAt)
    )
  )
})

/** `completedAt`: milliseconds since the epoch. */
export const recordBackup = (
  { sql, write }: Database,
  completedAt: number
): Effect.Effect<void, StoreUnavailable> =>
  write("Backups.record", () =>
    run(sql`
      INSERT INTO last_backup (id, completed_at) VALUES (1, ${completedAt})
      ON CONFLICT (id) DO UPDATE SET completed_at = excluded.completed_at`)
  )
