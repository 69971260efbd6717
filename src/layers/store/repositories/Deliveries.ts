import type { Fragment } from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Deliveries, Delivery, DeliveryKind, DeliveryUpdate } from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { DeliveryRow, enqueue, hasStatus, priorities, toDelivery } from "./DeliveryRows.ts"
import { all, any, first, lock, run, type Steps } from "../Query.ts"
import { isNotRemoved } from "./ReportRemoval.ts"
import { OptionalWhole, Whole } from "./Rows.ts"

/** Rows of an unknown kind or state are listed, and never leased. */
const LeasedRow = Schema.Struct({
  ...DeliveryRow.fields,
  kind: Schema.Literal("report", "sweep"),
  leasedFrom: Schema.Literal("waiting", "unknown"),
  priority: Whole
})

/** Decoders of rows. */
const leasedRows = all(LeasedRow)
const deliveryRows = all(DeliveryRow)
const leaseSums = all(Schema.Struct({ count: Whole, endsAt: OptionalWhole }))
const dueTimes = all(Schema.Struct({ availableAt: Whole }))

/** `wakeUp` runs after a commit that may let another worker of this process continue. */
export const makeDeliveries = (
  { sql, read, write, skipLocked }: Database,
  wakeUp: () => void = () => undefined
): Deliveries => {
  /** Ends expired leases. A holder that died while sending leaves an unknown outcome, and all searches are made. */
  const recover = (kinds: ReadonlyArray<DeliveryKind>, now: number) => sql`
    UPDATE deliveries SET
      state = CASE WHEN sending_at IS NULL THEN leased_from ELSE 'unknown' END,
      looks = CASE WHEN sending_at IS NULL THEN looks ELSE 0 END,
      ${mayHaveHappened}, ${released}
    WHERE ${sql.in("kind", kinds)} AND state = 'leased' AND lease_until <= ${now}`

  /**
   * The first deliveries of each kind, state and priority: each select follows the order of the index. One condition for all
   * of them would read and sort every row that waits.
   */
  const heads = (
    kinds: ReadonlyArray<DeliveryKind>,
    {
      count,
      dueBy,
      lock
    }: {
      readonly count: number
      readonly dueBy?: number
      readonly lock?: Fragment
    }
  ): Fragment =>
    sql.join(
      " UNION ALL ",
      false
    )(
      kinds.flatMap((kind) =>
        (["unknown", "waiting"] as const).flatMap((state) =>
          Object.values(priorities).map(
            (priority) => sql`
              SELECT * FROM (
                SELECT id, state, priority, available_at FROM deliveries
                WHERE kind = ${kind} AND state = ${state} AND priority = ${priority}
                  AND ${dueBy === undefined ? sql`1 = 1` : sql`available_at <= ${dueBy}`}
                ORDER BY available_at, id LIMIT ${count} ${lock ?? sql``}) AS head`
          )
        )
      )
    )

  const leases = (kinds: ReadonlyArray<DeliveryKind>) =>
    leaseSums(sql`
      SELECT COUNT(*) AS count, MIN(lease_until) AS ends_at
      FROM deliveries WHERE ${sql.in("kind", kinds)} AND state = 'leased'`).map(
      ([row]) => row ?? { count: 0, endsAt: Option.none() }
    )

  /** Changes the row only for the holder of the newest lease. */
  const whileHeld = (id: string, fence: number, changes: Fragment) =>
    deliveryRows(sql`
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
          looks = ${update.searches}, ${mayHaveHappened}, ${released}`
      case "Failed":
        return sql`
          state = 'failed', finished_at = ${update.at}, last_failure = ${update.failure},
          discarded_at = NULL, sending_at = NULL, ${released}`
    }
  }

  function* recordDelivered({ subject }: DeliveryRow, { at, issue, sweepAt }: Delivered): Steps<void> {
    if (Option.isSome(issue))
      yield* run(sql`
        UPDATE reports SET issue_number = ${issue.value.number}, issue_url = ${issue.value.url}
        WHERE id = ${subject}`)
    if (Option.isSome(sweepAt))
      yield* enqueue(sql, {
        kind: "sweep",
        subject,
        createdAt: at,
        availableAt: sweepAt.value,
        priority: "first"
      })
  }

  const wakeUpIf = (changed: boolean) => {
    if (changed) wakeUp()
  }

  const changeable = sql`state IN ('waiting', 'unknown', 'failed')`

  /** An operator cannot change leased and delivered ones. */
  const byOperator = (operation: string, id: string, changes: Fragment, condition: Fragment = changeable) =>
    write(
      operation,
      function* () {
        const changed = yield* any(sql`
          UPDATE deliveries SET ${changes}
          WHERE id = ${id} AND ${condition} RETURNING id`)
        return changed
      },
      wakeUpIf
    )

  return {
    lease: ({ kinds, count, concurrency, now, leaseUntil, owner }) =>
      write("Deliveries.lease", function* () {
        // One lease at a time: two at once would count the same free places.
        yield* lock(`deliveries ${[...kinds].sort().join(" ")}`)
        yield* run(recover(kinds, now))
        const free = Math.min(count, concurrency - (yield* leases(kinds)).count)
        if (free <= 0) return []
        // MATERIALIZED: a subquery that runs again for each row would skip the rows that it has locked itself, and lock the next ones.
        // `unknown` sorts before `waiting`: searches keep their times, and write nothing.
        const leased = yield* leasedRows(sql`
            WITH due AS MATERIALIZED (
              SELECT id FROM (${heads(kinds, { count: free, dueBy: now, lock: skipLocked })}) AS heads
              ORDER BY state, priority, available_at, id LIMIT ${free})
            UPDATE deliveries SET
              state = 'leased', leased_from = state, fence = fence + 1,
              lease_owner = ${owner}, lease_until = ${leaseUntil}
            WHERE id IN (SELECT id FROM due)
            RETURNING *`)
        return leased
          .map((row) => ({ ...row, state: row.leasedFrom }))
          .sort(inLeaseOrder)
          .map(({ leasedFrom: _, priority: __, ...row }): Delivery => toDelivery(row))
      }),
    extend: (id, fence, leaseUntil) =>
      write("Deliveries.extend", () =>
        whileHeld(id, fence, sql`lease_until = ${leaseUntil}`).map((rows) => rows.length > 0)
      ),
    update: (id, fence, update) =>
      write(
        `Deliveries.update:${update._tag}`,
        function* () {
          const [row] = yield* whileHeld(id, fence, changesOf(update))
          if (row === undefined) return false
          if (update._tag === "Delivered") yield* recordDelivered(row, update)
          return true
        },
        (changed) => wakeUpIf(changed && update._tag !== "Sending")
      ),
    nextDueAt: (kinds, concurrency = Number.POSITIVE_INFINITY) =>
      Effect.gen(function* () {
        const { count, endsAt } = yield* read("Deliveries.held", leases(kinds))
        if (count >= concurrency) return endsAt
        const due = yield* read("Deliveries.nextDueAt", dueTimes(sql`${heads(kinds, { count: 1 })}`))
        const times = [...Option.toArray(endsAt), ...due.map((row) => row.availableAt)]
        return times.length === 0 ? Option.none() : Option.some(Math.min(...times))
      }),
    find: (id) =>
      read(
        "Deliveries.find",
        first(DeliveryRow)(sql`SELECT * FROM deliveries WHERE id = ${id}`).map(Option.map(toDelivery))
      ),
    // Anything ever sent may be filed, also when its last attempt was refused, so the searches start again. A failed or
    // discarded delivery may have had an unknown outcome before.
    retry: (id, now, { onlyFailed } = { onlyFailed: false }) =>
      byOperator(
        "Deliveries.retry",
        id,
        sql`
          state = CASE
            WHEN attempts > 0 OR state <> 'waiting'
            THEN 'unknown' ELSE 'waiting' END,
          priority = ${priorities.first}, available_at = ${now}, looks = 0, finished_at = NULL, discarded_at = NULL`,
        sql`${onlyFailed ? hasStatus(sql, "failed") : changeable} AND ${isNotRemoved(sql, "deliveries.subject")}`
      ),
    discard: (id, now, reason) =>
      byOperator(
        "Deliveries.discard",
        id,
        sql`state = 'failed', finished_at = ${now}, discarded_at = ${now}, last_failure = ${reason}`
      ),
    counts: read(
      "Deliveries.counts",
      all(Schema.Struct({ kind: Schema.String, state: Schema.String, count: Whole }))(sql`
        SELECT kind, state, COUNT(*) AS count FROM deliveries WHERE discarded_at IS NULL
        GROUP BY kind, state ORDER BY kind, state`)
    ),
    // Sweeps wait on purpose and would hide how long a report waits.
    oldestOpen: read(
      "Deliveries.oldestOpen",
      first(Schema.Struct({ createdAt: OptionalWhole }))(sql`
        SELECT MIN(created_at) AS created_at FROM deliveries
        WHERE kind = 'report' AND finished_at IS NULL`).map(Option.flatMap((row) => row.createdAt))
    )
  }
}

type LeasedRow = Pick<typeof LeasedRow.Type, "id" | "priority" | "availableAt"> & { readonly state: string }

type Delivered = Extract<DeliveryUpdate, { readonly _tag: "Delivered" }>

/** Unknown outcomes first, then by priority, then by due time. */
const inLeaseOrder = (one: LeasedRow, other: LeasedRow): number =>
  Number(one.state !== "unknown") - Number(other.state !== "unknown") ||
  one.priority - other.priority ||
  one.availableAt - other.availableAt ||
  (one.id < other.id ? -1 : 1)
