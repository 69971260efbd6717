/** Deliveries to the tracker, and the writes to them that other repositories make in their own transactions. */
import type { SqlClient } from "@effect/sql/SqlClient"
import type { Fragment } from "@effect/sql/Statement"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Database } from "./Database.ts"
import { longestAhead } from "./Destinations.ts"
import { OptionalText, OptionalWhole, valueOf, values, Whole } from "./Rows.ts"
import { all, any, first, run, type Statements } from "./Statements.ts"

/** `failed` deliveries wait for an operator; `discarded` ones are those that an operator gave up. */
export const deliveryStates = ["waiting", "leased", "unknown", "delivered", "failed", "discarded"] as const
export type DeliveryState = (typeof deliveryStates)[number]
/** `report`: file it as an issue. `sweep`: search, much later, for duplicates of an issue that was sent more than once. */
export const deliveryKinds = ["report", "sweep"] as const
export type DeliveryKind = (typeof deliveryKinds)[number]

/** Order of leasing among due deliveries of one state. */
const priorities = { first: 0, usual: 1 } as const

/** A row as it is listed, also one of an unknown kind or state. */
export const DeliveryRow = Schema.Struct({
  id: Schema.String,
  kind: Schema.String,
  /** Id of the record that caused it. */
  subject: Schema.String,
  state: Schema.String,
  /** Sends begun: grows with `Sending`, not with a lease. */
  attempts: Whole,
  availableAt: Whole,
  /** When the last attempt that may have succeeded was sent; none before the first. */
  sentAt: OptionalWhole,
  /** Complete searches after an unknown outcome that found nothing. */
  searches: Schema.propertySignature(Whole).pipe(Schema.fromKey("looks")),
  lastFailure: OptionalText,
  /** Grows with every lease; a write under an older one changes nothing. */
  fence: Whole,
  createdAt: Whole,
  /** When it was delivered, failed or discarded. */
  finishedAt: OptionalWhole
})
export type StoredDelivery = typeof DeliveryRow.Type

const LeasedRow = Schema.Struct({
  ...DeliveryRow.fields,
  kind: Schema.Literal(...deliveryKinds),
  state: Schema.Literal("waiting", "unknown")
})
/** As its lease found it. */
export type Delivery = typeof LeasedRow.Type

/** Writes of the holder of a lease. */
export type DeliveryUpdate = Data.TaggedEnum<{
  /** Committed before the call that cannot be repeated. A holder that dies from here on leaves an unknown outcome without a search. */
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
  /** Given back without an outcome of its own: it stays as unknown as it is. */
  Released: { readonly availableAt: number; readonly failure: string }
}>
export const DeliveryUpdate = Data.taggedEnum<DeliveryUpdate>()
type Delivered = Extract<DeliveryUpdate, { readonly _tag: "Delivered" }>

const leasedRow = first(LeasedRow)

/** Columns of `DeliveryRow`. A lease shows as a state. */
export const deliveryColumns = (sql: SqlClient): Fragment => sql`
  id, kind, subject, CASE WHEN lease_until IS NULL THEN state ELSE 'leased' END AS state, attempts, available_at, sent_at, looks,
  last_failure, fence, created_at, finished_at`

/** Condition for rows that show this state. */
export const hasState = (sql: SqlClient, state: DeliveryState): Fragment =>
  state === "leased" ? sql`lease_until IS NOT NULL` : sql`(state = ${state} AND lease_until IS NULL)`

/** As its lease finds it. */
interface NewDelivery {
  readonly createdAt: number
  readonly priority: keyof typeof priorities
  readonly availableAt?: number
  /** `unknown` is for one that may have been sent before: the worker searches first. */
  readonly state?: Delivery["state"]
}

/** Part of the transaction that stores the cause. One delivery of a kind for a subject: a second one changes nothing. */
export const enqueue = (
  sql: SqlClient,
  kind: DeliveryKind,
  subject: string,
  { availableAt, createdAt, priority, state = "waiting" }: NewDelivery
): Statements<void> => {
  const due = { availableAt: availableAt ?? createdAt, priority: priorities[priority] }
  const row = { id: `${kind}:${subject}`, kind, subject, state, createdAt, ...due }
  return run(sql`
    INSERT INTO deliveries ${values(sql, { ...row, attempts: 0, looks: 0, fence: 0 })} ON CONFLICT (id) DO NOTHING`)
}

/**
 * Condition for rows that an operator cannot change: under a lease, and perhaps on their way to the tracker. A lease that has ended is no
 * obstacle: its holder died, and perhaps no server with a tracker runs any more that would take it over. The holder of a report that still
 * waits has sent nothing, and sends nothing without its lease.
 */
export const isInFlight = (sql: SqlClient, now: number): Fragment =>
  sql`lease_until IS NOT NULL AND lease_until > ${now} AND NOT (kind = 'report' AND state = 'waiting')`

/** `wakeUp` runs after a commit that may let another worker of this process continue. */
export const makeDeliveries = ({ read, sql, write }: Database, wakeUp: () => void) => {
  /** A later version may have other kinds. */
  const isKnown = sql.in("kind", deliveryKinds)

  const changesOf = ({ attempts, searches, sentAt }: Delivery, update: DeliveryUpdate): Fragment => {
    // Also right when it is repeated, because the answer to its commit was lost.
    if (update._tag === "Sending")
      return sql`state = 'unknown', attempts = ${attempts + 1}, sent_at = ${update.at}, looks = 0`
    if (update._tag === "Delivered")
      return sql`state = 'delivered', finished_at = ${update.at}, lease_until = NULL`
    const ended = sql`last_failure = ${update.failure}, lease_until = NULL`
    // An attempt that was certainly not delivered leaves what is known of earlier ones.
    const notSent = sql`sent_at = ${Option.getOrNull(sentAt)}, looks = ${searches}`
    switch (update._tag) {
      case "Waiting":
        return sql`state = 'waiting', available_at = ${update.availableAt}, ${notSent}, ${ended}`
      case "Unknown":
        return sql`state = 'unknown', available_at = ${update.availableAt}, looks = ${update.searches}, ${ended}`
      case "Released":
        return sql`available_at = ${update.availableAt}, ${ended}`
      case "Failed":
        return sql`state = 'failed', finished_at = ${update.at}, ${notSent}, ${ended}`
    }
  }

  /** Changes the row only for the holder of the newest lease. */
  const whileHeld = ({ fence, id }: Delivery, changes: Fragment): Statements<boolean> =>
    any(sql`
      UPDATE deliveries SET ${changes}
      WHERE id = ${id} AND fence = ${fence} AND lease_until IS NOT NULL
      RETURNING id`)

  const recordDelivered = (subject: string, { at, issue, sweepAt }: Delivered): Statements<void> =>
    Effect.gen(function* () {
      if (Option.isSome(issue))
        yield* run(sql`
          UPDATE reports SET issue_number = ${issue.value.number}, issue_url = ${issue.value.url}
          WHERE id = ${subject}`)
      if (Option.isSome(sweepAt))
        yield* enqueue(sql, "sweep", subject, {
          createdAt: at,
          availableAt: sweepAt.value,
          priority: "first"
        })
    })

  const wakeUpIf = (changed: boolean) => {
    if (changed) wakeUp()
  }

  /** An operator cannot change what is in flight or delivered. */
  const byOperator = (operation: string, id: string, now: number, changes: Fragment, condition: Fragment) =>
    any(sql`
      UPDATE deliveries SET ${changes}, lease_until = NULL
      WHERE id = ${id} AND NOT (${isInFlight(sql, now)}) AND state <> 'delivered' AND ${condition}
      RETURNING id`).pipe(write("reports", operation, wakeUpIf))

  return {
    /**
     * Leases a due delivery, unless a process holds one. First those with an unknown outcome, then those with priority (verified reporters,
     * sweeps, retries by an operator), then the rest; each group in the order in which they fell due. When a holder dies, its delivery is
     * due again once the lease has ended: as `unknown` if it was being sent.
     */
    lease: ({ leaseUntil, now }: { readonly now: number; readonly leaseUntil: number }) =>
      Effect.gen(function* () {
        // A holder that died, is late, or had a clock that was ahead, has lost it: an operator may change it, and the holder writes nothing.
        yield* run(sql`
          UPDATE deliveries SET lease_until = NULL
          WHERE (lease_until <= ${now} OR lease_until > ${now + longestAhead}) AND ${isKnown}`)
        if (yield* any(sql`SELECT 1 FROM deliveries WHERE lease_until > ${now} AND ${isKnown}`))
          return Option.none<Delivery>()
        // `unknown` sorts before `waiting`: searches keep their times. Those that wait for a later time are passed over: not more than the
        // pace of the tracker lets fail or be filed in an hour.
        return yield* leasedRow(sql`
          UPDATE deliveries SET fence = fence + 1, lease_until = ${leaseUntil}
          WHERE id = (
            SELECT id FROM deliveries
            WHERE finished_at IS NULL AND available_at <= ${now} AND lease_until IS NULL AND ${isKnown}
            ORDER BY state, priority, available_at, id LIMIT 1)
          RETURNING *`)
      }).pipe(write("reports", "Deliveries.lease")),
    /** False when the fence is no longer the newest. */
    extend: (delivery: Delivery, leaseUntil: number) =>
      whileHeld(delivery, sql`lease_until = ${leaseUntil}`).pipe(write("reports", "Deliveries.extend")),
    /** False, without effect, when the fence is no longer the newest. */
    update: (delivery: Delivery, update: DeliveryUpdate) =>
      Effect.tap(whileHeld(delivery, changesOf(delivery, update)), (isWritten) =>
        isWritten && update._tag === "Delivered" ? recordDelivered(delivery.subject, update) : Effect.void
      ).pipe(
        write("reports", `Deliveries.update:${update._tag}`, (isWritten) =>
          wakeUpIf(isWritten && update._tag !== "Sending")
        )
      ),
    find: (id: string) =>
      first(DeliveryRow)(sql`SELECT ${deliveryColumns(sql)} FROM deliveries WHERE id = ${id}`).pipe(
        read("Deliveries.find")
      ),
    /**
     * By an operator: due now, and with a search first unless nothing was ever sent. False for a delivery that is in flight, delivered or
     * missing, or whose report was removed.
     */
    // Anything ever sent may be filed, also when its last attempt was refused, so the searches start again. One that failed or was discarded
    // may have had an unknown outcome before.
    retry: (id: string, now: number) =>
      byOperator(
        "Deliveries.retry",
        id,
        now,
        sql`
          state = CASE WHEN attempts > 0 OR state <> 'waiting' THEN 'unknown' ELSE 'waiting' END,
          priority = ${priorities.first}, available_at = ${now}, looks = 0, finished_at = NULL`,
        sql`NOT EXISTS (SELECT 1 FROM reports WHERE reports.id = subject AND removed_at IS NOT NULL)`
      ),
    /** By an operator: given up, for this reason. False for a delivery that is in flight, delivered, discarded before or missing. */
    discard: (id: string, now: number, reason: string) =>
      byOperator(
        "Deliveries.discard",
        id,
        now,
        sql`state = 'discarded', finished_at = ${now}, last_failure = ${reason}`,
        sql`state <> 'discarded'`
      ),
    /** Of leased ones there is a row for each state and end of a lease: one sum of them would sort all deliveries. */
    counts: all(Schema.Struct({ kind: Schema.String, state: Schema.String, count: Whole }))(sql`
      SELECT kind, CASE WHEN lease_until IS NULL THEN state ELSE 'leased' END AS state, COUNT(*) AS count
      FROM deliveries GROUP BY deliveries.state, kind, lease_until`).pipe(read("Deliveries.counts")),
    /** When the oldest report whose delivery is not over was stored. Sweeps wait on purpose and do not count. */
    oldestOpen: valueOf(Whole)(sql`
      SELECT created_at AS value FROM deliveries WHERE kind = 'report' AND finished_at IS NULL
      ORDER BY created_at LIMIT 1`).pipe(read("Deliveries.oldestOpen"))
  }
}

export type Deliveries = ReturnType<typeof makeDeliveries>
