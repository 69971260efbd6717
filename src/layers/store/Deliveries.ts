import type { SqlClient } from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import type { Fragment } from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Deliveries, Delivery, DeliveryKind, DeliveryUpdate } from "../../services/Store.ts"
import type { Database } from "./Database.ts"
import { all, first, OptionalText, OptionalWhole, Whole } from "./Rows.ts"

const Kind = Schema.Literal("report")
const State = Schema.Literal("waiting", "leased", "unknown", "delivered", "failed")

const Row = Schema.Struct({
  id: Schema.String,
  kind: Kind,
  subject: Schema.String,
  state: State,
  leased_from: Schema.NullOr(Schema.Literal("waiting", "unknown")),
  attempts: Whole,
  available_at: Whole,
  sending_at: OptionalWhole,
  sent_at: OptionalWhole,
  looks: Whole,
  last_failure: OptionalText,
  fence: Whole,
  created_at: Whole
})
type Row = typeof Row.Type

/** `sending_at` is a send whose outcome nobody has told yet; until then it may have happened. */
const toDelivery = (row: Row): Delivery => ({
  id: row.id,
  kind: row.kind,
  subject: row.subject,
  state: row.state,
  attempts: row.attempts,
  availableAt: row.available_at,
  sentAt: Option.orElse(row.sending_at, () => row.sent_at),
  looks: row.looks,
  lastFailure: row.last_failure,
  fence: row.fence,
  createdAt: row.created_at
})

/** For the transaction that stores the subject. One delivery a subject: a second one changes nothing. */
export const enqueue = (
  sql: SqlClient,
  { kind, subject, createdAt }: Pick<Delivery, "kind" | "subject" | "createdAt">
): Effect.Effect<void, SqlError> =>
  Effect.asVoid(sql`
    INSERT INTO deliveries (id, kind, subject, state, attempts, available_at, looks, fence, created_at)
    VALUES (${`${kind}:${subject}`}, ${kind}, ${subject}, 'waiting', 0, ${createdAt}, 0, 0, ${createdAt})
    ON CONFLICT (id) DO NOTHING`)

export const makeDeliveries = ({ sql, read, write, alone }: Database): Deliveries => {
  /** A holder that died while sending leaves an unknown outcome, to be looked into from the start. */
  const recover = (kind: DeliveryKind, now: number) => sql`
    UPDATE deliveries SET
      state = CASE WHEN sending_at IS NULL THEN leased_from ELSE 'unknown' END,
      looks = CASE WHEN sending_at IS NULL THEN looks ELSE 0 END,
      sent_at = COALESCE(sending_at, sent_at),
      sending_at = NULL, leased_from = NULL, lease_owner = NULL, lease_until = NULL
    WHERE kind = ${kind} AND state = 'leased' AND lease_until <= ${now}`

  /** Changes what the holder of the newest lease holds, and nothing for anybody else. */
  const whileHeld = (id: string, fence: number, changes: Fragment) =>
    all(Row)(sql`
      UPDATE deliveries SET ${changes}
      WHERE id = ${id} AND fence = ${fence} AND state = 'leased'
      RETURNING *`)

  const released = sql`leased_from = NULL, lease_owner = NULL, lease_until = NULL`
  const mayHaveHappened = sql`sent_at = COALESCE(sending_at, sent_at), sending_at = NULL`

  const changesOf = (update: DeliveryUpdate): Fragment => {
    switch (update._tag) {
      case "Sending":
        return sql`sending_at = ${update.at}, attempts = attempts + 1`
      case "Delivered":
        return sql`state = 'delivered', finished_at = ${update.at}, ${mayHaveHappened}, ${released}`
      case "Waiting":
        return sql`
          state = 'waiting', available_at = ${update.availableAt}, last_failure = ${update.failure},
          sending_at = NULL, ${released}`
      case "Unknown":
        return sql`
          state = 'unknown', available_at = ${update.availableAt}, last_failure = ${update.failure},
          looks = ${update.looks}, ${mayHaveHappened}, ${released}`
      case "Failed":
        return sql`
          state = 'failed', finished_at = ${update.at}, last_failure = ${update.failure},
          sending_at = NULL, ${released}`
    }
  }

  return {
    lease: ({ kind, count, now, leaseUntil, owner }) =>
      write(
        "Deliveries.lease",
        Effect.gen(function* () {
          yield* alone(`deliveries ${kind}`)
          yield* recover(kind, now)
          const due = yield* all(Row)(sql`
            SELECT * FROM deliveries
            WHERE kind = ${kind} AND state IN ('waiting', 'unknown') AND available_at <= ${now}
            ORDER BY created_at, id LIMIT ${count}`)
          yield* Effect.forEach(
            due,
            ({ id }) => sql`
              UPDATE deliveries SET
                state = 'leased', leased_from = state, fence = fence + 1,
                lease_owner = ${owner}, lease_until = ${leaseUntil}
              WHERE id = ${id}`,
            { discard: true }
          )
          return due.map((row) => toDelivery({ ...row, fence: row.fence + 1 }))
        })
      ),
    extend: (id, fence, leaseUntil) =>
      write(
        "Deliveries.extend",
        Effect.map(whileHeld(id, fence, sql`lease_until = ${leaseUntil}`), (rows) => rows.length > 0)
      ),
    update: (id, fence, update) =>
      write(
        "Deliveries.update",
        Effect.gen(function* () {
          const [row] = yield* whileHeld(id, fence, changesOf(update))
          if (row === undefined) return false
          if (update._tag === "Delivered")
            yield* sql`
              UPDATE reports SET issue_number = ${update.issue.number}, issue_url = ${update.issue.url}
              WHERE id = ${row.subject}`
          return true
        })
      ),
    nextDueAt: (kind) =>
      read(
        "Deliveries.nextDueAt",
        first(Schema.Struct({ due_at: OptionalWhole }))(sql`
          SELECT MIN(CASE WHEN state = 'leased' THEN lease_until ELSE available_at END) AS due_at
          FROM deliveries WHERE kind = ${kind} AND state IN ('waiting', 'unknown', 'leased')`)
      ).pipe(Effect.map(Option.flatMap((row) => row.due_at))),
    find: (id) =>
      read("Deliveries.find", first(Row)(sql`SELECT * FROM deliveries WHERE id = ${id}`)).pipe(
        Effect.map(Option.map(toDelivery))
      ),
    counts: read(
      "Deliveries.counts",
      all(Schema.Struct({ kind: Kind, state: State, count: Whole }))(sql`
        SELECT kind, state, COUNT(*) AS count FROM deliveries GROUP BY kind, state ORDER BY kind, state`)
    )
  }
}
