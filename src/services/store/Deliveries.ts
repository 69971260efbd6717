import type { Fragment } from "@effect/sql/Statement"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Database } from "./Database.ts"
import {
  type Delivery,
  type DeliveryKind,
  deliveryKinds,
  DeliveryRow,
  enqueue,
  hasStatus,
  priorities,
  toDelivery
} from "./DeliveryRows.ts"
import { isNotRemoved } from "./ReportRows.ts"
import { OptionalWhole, Whole } from "./Rows.ts"
import { all, any, first, run, type Statements } from "./Statements.ts"

/** Writes of the holder of a lease. */
export type DeliveryUpdate = Data.TaggedEnum<{
  /** Committed before the call that cannot be repeated; after a crash from here on, the outcome is unknown. */
  Sending: { readonly at: number }
  /** `issue` is written to the report; with `sweepAt` a sweep is enqueued in the same transaction. */
  Delivered: {
    readonly at: number
    readonly issue: Option.Option<{ readonly number: number; readonly url: string }>
    readonly sweepAt: Option.Option<number>
  }
  /** Certainly not delivered: try again at `availableAt`. */
  Waiting: { readonly availableAt: number; readonly failure: string }
  /** May have been delivered: search first. */
  Unknown: { readonly availableAt: number; readonly failure: string; readonly searches: number }
  Failed: { readonly at: number; readonly failure: string }
}>
export const DeliveryUpdate = Data.taggedEnum<DeliveryUpdate>()

/** Rows of an unknown kind or state are listed, and never leased. */
const LeasedRow = Schema.Struct({
  ...DeliveryRow.fields,
  kind: Schema.Literal(...deliveryKinds),
  leasedFrom: Schema.Literal("waiting", "unknown"),
  priority: Whole
})
type LeasedRow = typeof LeasedRow.Type

/** Decoders of rows. */
const leasedRows = all(LeasedRow)
const deliveryRow = first(DeliveryRow)
const leaseSums = all(Schema.Struct({ count: Whole, endsAt: OptionalWhole }))
const dueTimes = all(Schema.Struct({ availableAt: Whole }))

/** `wakeUp` runs after a commit that may let another worker of this process continue. */
export const makeDeliveries = ({ read, sql, write }: Database, wakeUp: () => void) => {
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
  const heads = (kinds: ReadonlyArray<DeliveryKind>, count: number, dueBy?: number): Fragment =>
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
                ORDER BY available_at, id LIMIT ${count}) AS head`
          )
        )
      )
    )

  const leases = (kinds: ReadonlyArray<DeliveryKind>) =>
    Effect.map(
      leaseSums(sql`
        SELECT COUNT(*) AS count, MIN(lease_until) AS ends_at
        FROM deliveries WHERE ${sql.in("kind", kinds)} AND state = 'leased'`),
      ([row]) => row ?? { count: 0, endsAt: Option.none() }
    )

  /** Changes the row only for the holder of the newest lease. */
  const whileHeld = (id: string, fence: number, changes: Fragment) =>
    deliveryRow(sql`
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

  const recordDelivered = (subject: string, { at, issue, sweepAt }: Delivered): Statements<void> =>
    Effect.gen(function* () {
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
    })

  const wakeUpIf = (changed: boolean) => {
    if (changed) wakeUp()
  }

  const changeable = sql`state IN ('waiting', 'unknown', 'failed')`

  /** An operator cannot change leased and delivered ones. */
  const byOperator = (operation: string, id: string, changes: Fragment, condition: Fragment = changeable) =>
    write("reports")(
      operation,
      any(sql`UPDATE deliveries SET ${changes} WHERE id = ${id} AND ${condition} RETURNING id`),
      wakeUpIf
    )

  return {
    /**
     * Leases due deliveries of these kinds; all processes together hold at most `concurrency` of them. First those with an
     * unknown outcome, then those with priority (verified reporters, sweeps, retries by an operator), then the rest; each
     * group in the order in which they fell due. When a holder dies, its deliveries return once the lease has ended: as `unknown` if one was
     * being sent.
     */
    lease: ({ kinds, count, concurrency, now, leaseUntil, owner }: LeaseRequest) =>
      write("reports")(
        "Deliveries.lease",
        Effect.gen(function* () {
          yield* run(recover(kinds, now))
          const free = Math.min(count, concurrency - (yield* leases(kinds)).count)
          if (free <= 0) return []
          // `unknown` sorts before `waiting`: searches keep their times, and write nothing.
          const leased = yield* leasedRows(sql`
            UPDATE deliveries SET
              state = 'leased', leased_from = state, fence = fence + 1,
              lease_owner = ${owner}, lease_until = ${leaseUntil}
            WHERE id IN (
              SELECT id FROM (${heads(kinds, free, now)}) AS heads
              ORDER BY state, priority, available_at, id LIMIT ${free})
            RETURNING *`)
          return leased
            .toSorted(inLeaseOrder)
            .map(({ leasedFrom: state, priority: _, ...row }): Delivery => toDelivery({ ...row, state }))
        })
      ),
    /** False when the fence is no longer the newest. */
    extend: (id: string, fence: number, leaseUntil: number) =>
      write("reports")(
        "Deliveries.extend",
        Effect.map(whileHeld(id, fence, sql`lease_until = ${leaseUntil}`), Option.isSome)
      ),
    /** False, without effect, when the fence is no longer the newest. */
    update: (id: string, fence: number, update: DeliveryUpdate) =>
      write("reports")(
        `Deliveries.update:${update._tag}`,
        Effect.tap(whileHeld(id, fence, changesOf(update)), (row) =>
          Option.isSome(row) && update._tag === "Delivered"
            ? recordDelivered(row.value.subject, update)
            : Effect.void
        ),
        (row) => wakeUpIf(Option.isSome(row) && update._tag !== "Sending")
      ).pipe(Effect.map(Option.isSome)),
    /**
     * Milliseconds since the epoch at which the next delivery that `lease` takes falls due or a lease ends; none when there
     * is none. While `concurrency` of them are leased, it is the end of the first lease.
     */
    nextDueAt: (kinds: ReadonlyArray<DeliveryKind>, concurrency: number) =>
      Effect.gen(function* () {
        const { count, endsAt } = yield* read("Deliveries.held", leases(kinds))
        if (count >= concurrency) return endsAt
        const due = yield* read("Deliveries.nextDueAt", dueTimes(sql`${heads(kinds, 1)}`))
        const times = [...Option.toArray(endsAt), ...due.map((row) => row.availableAt)]
        return times.length === 0 ? Option.none() : Option.some(Math.min(...times))
      }),
    find: (id: string) =>
      Effect.map(
        read("Deliveries.find", deliveryRow(sql`SELECT * FROM deliveries WHERE id = ${id}`)),
        Option.map(toDelivery)
      ),
    /**
     * By an operator: due now, and with a search first unless nothing was ever sent. False for a delivery that is leased,
     * delivered or missing, or whose report was removed; with `onlyFailed` also for one that did not fail or was discarded.
     */
    // Anything ever sent may be filed, also when its last attempt was refused, so the searches start again. A failed or
    // discarded delivery may have had an unknown outcome before.
    retry: (id: string, now: number, { onlyFailed } = { onlyFailed: false }) =>
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
    /** By an operator: `failed` and discarded, for this reason. False for a delivery that is leased, delivered or missing. */
    discard: (id: string, now: number, reason: string) =>
      byOperator(
        "Deliveries.discard",
        id,
        sql`state = 'failed', finished_at = ${now}, discarded_at = ${now}, last_failure = ${reason}`
      ),
    /** Without discarded ones, which need no operator. */
    counts: read(
      "Deliveries.counts",
      all(Schema.Struct({ kind: Schema.String, state: Schema.String, count: Whole }))(sql`
        SELECT kind, state, COUNT(*) AS count FROM deliveries WHERE discarded_at IS NULL
        GROUP BY kind, state ORDER BY kind, state`)
    ),
    /** When the oldest report whose delivery is not over was stored. Sweeps wait on purpose and do not count. */
    oldestOpen: Effect.map(
      read(
        "Deliveries.oldestOpen",
        first(Schema.Struct({ createdAt: OptionalWhole }))(sql`
          SELECT MIN(created_at) AS created_at FROM deliveries
          WHERE kind = 'report' AND finished_at IS NULL`)
      ),
      Option.flatMap((row) => row.createdAt)
    )
  }
}

export type Deliveries = ReturnType<typeof makeDeliveries>

interface LeaseRequest {
  readonly kinds: ReadonlyArray<DeliveryKind>
  readonly count: number
  readonly concurrency: number
  readonly now: number
  readonly leaseUntil: number
  readonly owner: string
}

type Delivered = Extract<DeliveryUpdate, { readonly _tag: "Delivered" }>

/** Unknown outcomes first, then by priority, then by due time. */
const inLeaseOrder = (one: LeasedRow, other: LeasedRow): number =>
  Number(one.leasedFrom !== "unknown") - Number(other.leasedFrom !== "unknown") ||
  one.priority - other.priority ||
  one.availableAt - other.availableAt ||
  (one.id < other.id ? -1 : 1)
