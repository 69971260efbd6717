/**
 * The bytes of stored reports: of all, of each signed-in reporter in a plane, and of each network for the others. What changes the
 * content, the reporter or the network of a report changes the sums in its transaction, and takes the lock `reports` before.
 */
import type { SqlClient } from "@effect/sql/SqlClient"
import type { Fragment } from "@effect/sql/Statement"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { first, type Query, run, type Steps } from "../Query.ts"
import { Whole } from "./Rows.ts"

/** Before the public id of a signed-in reporter. */
export const verified = "verified:"

/** Bytes that a report counts besides its content, for its row, keys and delivery. */
const bytesBeside = 1_000

export const bytesOf = (content: string): number => Buffer.byteLength(content) + bytesBeside

/** The same of the column `content`. */
export const countedBytes = (sql: SqlClient): Fragment =>
  sql.onDialectOrElse({
    pg: () => sql`(OCTET_LENGTH(content) + ${sql.literal(String(bytesBeside))})`,
    orElse: () => sql`(LENGTH(CAST(content AS BLOB)) + ${sql.literal(String(bytesBeside))})`
  })

/** What the sums count of a report. */
export const CountedRow = Schema.Struct({
  plane: Schema.String,
  reporter: Schema.String,
  network: Schema.NullOr(Schema.String),
  bytes: Whole
})
type CountedRow = typeof CountedRow.Type

/** Whose bytes a report counts: a reporter of a plane, or a network of all planes. */
export interface Holder {
  readonly kind: "reporter" | "network"
  readonly plane: string
  readonly holder: string
}

export const holderOf = ({ network, plane, reporter }: Omit<CountedRow, "bytes">): Holder | undefined => {
  if (reporter.startsWith(verified)) return { kind: "reporter", plane, holder: reporter }
  return network === null ? undefined : { kind: "network", plane: "", holder: network }
}

export const makeReportSums = (sql: SqlClient) => {
  function* change(rows: ReadonlyArray<CountedRow>, sign: 1 | -1): Steps<void> {
    if (rows.length === 0) return
    const sum = rows.reduce((all, { bytes }) => all + bytes, 0)
    yield* run(sql`
      INSERT INTO report_totals (id, bytes) VALUES (1, ${sign * sum})
      ON CONFLICT (id) DO UPDATE SET bytes = report_totals.bytes + excluded.bytes`)
    for (const row of rows) {
      const held = holderOf(row)
      if (held === undefined) continue
      yield* run(sql`
        INSERT INTO room_holders (plane, holder, bytes) VALUES (${held.plane}, ${held.holder}, ${sign * row.bytes})
        ON CONFLICT (plane, holder) DO UPDATE SET bytes = room_holders.bytes + excluded.bytes`)
      if (sign === -1)
        yield* run(sql`
          DELETE FROM room_holders WHERE plane = ${held.plane} AND holder = ${held.holder} AND bytes <= 0`)
    }
  }

  return {
    add: (rows: ReadonlyArray<CountedRow>) => change(rows, 1),
    subtract: (rows: ReadonlyArray<CountedRow>) => change(rows, -1),

    all: first(Schema.Struct({ bytes: Whole }))(sql`SELECT bytes FROM report_totals WHERE id = 1`).map(
      Option.match({ onNone: () => 0, onSome: ({ bytes }) => bytes })
    ),

    /** The bytes of all reports and of a holder, in one round trip. */
    allAndHeld: (holder: Holder | undefined): Query<{ readonly all: number; readonly held: number }> =>
      first(Schema.Struct({ all: Whole, held: Whole }))(sql`
        SELECT COALESCE((SELECT bytes FROM report_totals WHERE id = 1), 0) AS "all",
          COALESCE((SELECT bytes FROM room_holders
            WHERE plane = ${holder?.plane ?? ""} AND holder = ${holder?.holder ?? ""}), 0) AS held`).map(
        Option.getOrElse(() => ({ all: 0, held: 0 }))
      )
  }
}
