/** Deliveries to the tracker, and the writes to them that other repositories make in their own transactions. */
import type { SqlClient } from "@effect/sql/SqlClient"
import type { Fragment } from "@effect/sql/Statement"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Database } from "./Database.ts"
import { isNotRemoved } from "./ReportRows.ts"
import { OptionalText, OptionalWhole, Whole } from "./Rows.ts"
import { all, any, first, run, type Statements } from "./Statements.ts"

export const deliveryStates = ["waiting", "leased", "unknown", "delivered", "failed"] as const
type DeliveryState = (typeof deliveryStates)[number]
/** `failed` deliveries wait for an operator; `discarded` ones are those that an operator gave up. */
export type DeliveryStatus = DeliveryState | "discarded"
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
  /** When it was delivered or failed. */
  finishedAt: OptionalWhole,
  /** When an operator gave it up; only a `failed` delivery has it. */
  discardedAt: OptionalWhole
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

/** States of deliveries that may be leased. */
const open = ["unknown", "waiting"] as const

/** Decoders of rows. */
const leasedRow = first(LeasedRow)

const numbers = first(Schema.Struct({ number: OptionalWhole }))
const numberOf = (statement: Parameters<typeof numbers>[0]) =>
  Effect.map(
    numbers(statement),
    Option.flatMap((row) => row.number)
  )

/** Columns of `DeliveryRow`. A lease shows as a state. */
export const deliveryColumns = (sql: SqlClient): Fragment => sql`
  id, kind, subject, CASE WHEN lease_until IS NULL THEN state ELSE 'leased' END AS state, attempts, available_at, sent_at, looks,
  last_failure, fence, created_at, finished_at, discarded_at`

/** Condition for rows of a status; a discarded delivery is stored as failed. */
export const hasStatus = (sql: SqlClient, status: DeliveryStatus): Fragment => {
  switch (status) {
    case "leased":
      return sql`lease_until IS NOT NULL`
    case "discarded":
      return sql`(state = 'failed' AND discarded_at IS NOT NULL)`
    default:
      return sql`(state = ${status} AND lease_until IS NULL AND discarded_at IS NULL)`
  }
}

/**
 * Part of the transaction that stores the cause. One delivery of a kind for a subject: a second one changes nothing.
 * `unknown` is for one that may have been sent before: the worker searches first.
 */
export const enqueue = (
  sql: SqlClient,
  {
    kind,
    subject,
    createdAt,
    priority,
    availableAt = createdAt,
    state = "waiting"
  }: Pick<Delivery, "kind" | "subject" | "createdAt"> & {
    readonly priority: keyof typeof priorities
    readonly availableAt?: number
    readonly state?: Delivery["state"]
  }
): Statements<void> =>
  run(sql`
    INSERT INTO deliveries (id, kind, subject, state, attempts, available_at, looks, fence, created_at, priority)
    VALUES
      (${`${kind}:${subject}`}, ${kind}, ${subject}, ${state}, 0, ${availableAt}, 0, 0, ${createdAt},
       ${priorities[priority]})
    ON CONFLICT (id) DO NOTHING`)

/** False for one that has priority already, is over or is missing. */
export const prioritise = (
  sql: SqlClient,
  { kind, subject }: Pick<Delivery, "kind" | "subject">
): Statements<boolean> =>
  any(sql`
    UPDATE deliveries SET priority = ${priorities.first}
    WHERE id = ${`${kind}:${subject}`} AND priority <> ${priorities.first} AND finished_at IS NULL
    RETURNING id`)

/** `wakeUp` runs after a commit that may let another worker of this process continue. */
export const makeDeliveries = ({ read, sql, write }: Database, wakeUp: () => void) => {
  /** A later version may have other kinds. */
  const isKnown = sql.in("kind", deliveryKinds)
  /**
   * The first delivery of each state and priority that is due and not leased: each select follows the order of the index. One condition
   * for all of them would read every row that waits.
   */
  const heads = (dueBy: number): Fragment =>
    sql.join(
      " UNION ALL ",
      false
    )(
      open.flatMap((state) =>
        Object.values(priorities).map(
          (priority) => sql`
            SELECT * FROM (
              SELECT id, state, priority, available_at FROM deliveries
              WHERE finished_at IS NULL AND state = ${state} AND priority = ${priority} AND ${isKnown}
                AND available_at <= ${dueBy} AND lease_until IS NULL
              ORDER BY available_at, id LIMIT 1) AS head`
        )
      )
    )

  const changesOf = ({ searches, sentAt }: Delivery, update: DeliveryUpdate): Fragment => {
    // An attempt that was certainly not delivered leaves what is known of earlier ones.
    const notSent = sql`sent_at = ${Option.getOrNull(sentAt)}, looks = ${searches}, lease_until = NULL`
    switch (update._tag) {
      case "Sending":
        return sql`state = 'unknown', attempts = attempts + 1, sent_at = ${update.at}, looks = 0`
      case "Delivered":
        return sql`state = 'delivered', finished_at = ${update.at}, lease_until = NULL`
      case "Waiting":
        return sql`
          state = 'waiting', available_at = ${update.availableAt}, last_failure = ${update.failure}, ${notSent}`
      case "Unknown":
        return sql`
          state = 'unknown', available_at = ${update.availableAt}, last_failure = ${update.failure},
          looks = ${update.searches}, lease_until = NULL`
      case "Released":
        return sql`available_at = ${update.availableAt}, last_failure = ${update.failure}, lease_until = NULL`
      case "Failed":
        return sql`
          state = 'failed', finished_at = ${update.at}, discarded_at = NULL, last_failure = ${update.failure},
          ${notSent}`
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

  /**
   * An operator cannot change leased and delivered ones. A lease that has ended is no obstacle: its holder died, and perhaps no server with
   * a tracker runs any more that would take it over.
   */
  const byOperator = (operation: string, id: string, now: number, changes: Fragment, condition: Fragment) =>
    write("reports")(
      operation,
      any(sql`
        UPDATE deliveries SET ${changes}, lease_until = NULL
        WHERE id = ${id} AND (lease_until IS NULL OR lease_until <= ${now})
          AND state IN ('waiting', 'unknown', 'failed') AND ${condition}
        RETURNING id`),
      wakeUpIf
    )

  return {
    /**
     * Leases a due delivery, unless a process holds one. First those with an unknown outcome, then those with priority (verified reporters,
     * sweeps, retries by an operator), then the rest; each group in the order in which they fell due. When a holder dies, its delivery is
     * due again once the lease has ended: as `unknown` if it was being sent.
     */
    lease: ({ now, leaseUntil }: LeaseRequest) =>
      write("reports")(
        "Deliveries.lease",
        Effect.gen(function* () {
          // A holder that died, or is late, has lost it: an operator may change it, and the holder writes nothing.
          yield* run(sql`
            UPDATE deliveries SET lease_until = NULL
            WHERE lease_until <= ${now} AND ${isKnown}`)
          if (yield* any(sql`SELECT 1 FROM deliveries WHERE lease_until > ${now} AND ${isKnown}`))
            return Option.none<Delivery>()
          // `unknown` sorts before `waiting`: searches keep their times.
          return yield* leasedRow(sql`
            UPDATE deliveries SET fence = fence + 1, lease_until = ${leaseUntil}
            WHERE id = (
              SELECT id FROM (${heads(now)}) AS heads
              ORDER BY state, priority, available_at, id LIMIT 1)
            RETURNING *`)
        })
      ),
    /** False when the fence is no longer the newest. */
    extend: (delivery: Delivery, leaseUntil: number) =>
      write("reports")("Deliveries.extend", whileHeld(delivery, sql`lease_until = ${leaseUntil}`)),
    /** False, without effect, when the fence is no longer the newest. */
    update: (delivery: Delivery, update: DeliveryUpdate) =>
      write("reports")(
        `Deliveries.update:${update._tag}`,
        Effect.tap(whileHeld(delivery, changesOf(delivery, update)), (isWritten) =>
          isWritten && update._tag === "Delivered" ? recordDelivered(delivery.subject, update) : Effect.void
        ),
        (isWritten) => wakeUpIf(isWritten && update._tag !== "Sending")
      ),
    /**
     * Milliseconds since the epoch at which the next delivery that `lease` takes falls due or a lease ends; none when there is none. While
     * one is leased, it is the end of its lease.
     */
    nextDueAt: read(
      "Deliveries.nextDueAt",
      numberOf(sql`
        SELECT COALESCE(
          (SELECT MIN(lease_until) FROM deliveries WHERE lease_until > 0 AND ${isKnown}),
          (SELECT MIN(available_at) FROM (${heads(Number.MAX_SAFE_INTEGER)}) AS heads)) AS number`)
    ),
    find: (id: string) =>
      read(
        "Deliveries.find",
        first(DeliveryRow)(sql`SELECT ${deliveryColumns(sql)} FROM deliveries WHERE id = ${id}`)
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
        now,
        sql`
          state = CASE
            WHEN attempts > 0 OR state <> 'waiting'
            THEN 'unknown' ELSE 'waiting' END,
          priority = ${priorities.first}, available_at = ${now}, looks = 0, finished_at = NULL, discarded_at = NULL`,
        sql`${onlyFailed ? hasStatus(sql, "failed") : sql`1 = 1`} AND ${isNotRemoved(sql, "deliveries.subject")}`
      ),
    /** By an operator: `failed` and discarded, for this reason. False for a delivery that is leased, delivered, discarded before or missing. */
    discard: (id: string, now: number, reason: string) =>
      byOperator(
        "Deliveries.discard",
        id,
        now,
        sql`state = 'failed', finished_at = ${now}, discarded_at = ${now}, last_failure = ${reason}`,
        sql`discarded_at IS NULL`
      ),
    /** Without discarded ones, which need no operator. */
    counts: read(
      "Deliveries.counts",
      all(Schema.Struct({ kind: Schema.String, state: Schema.String, count: Whole }))(sql`
        SELECT kind, CASE WHEN lease_until IS NULL THEN state ELSE 'leased' END AS state, COUNT(*) AS count
        FROM deliveries WHERE discarded_at IS NULL GROUP BY 1, 2 ORDER BY 1, 2`)
    ),
    /** When the oldest report whose delivery is not over was stored. Sweeps wait on purpose and do not count. */
    oldestOpen: read(
      "Deliveries.oldestOpen",
      numberOf(sql`
        SELECT MIN(created_at) AS number FROM deliveries WHERE kind = 'report' AND finished_at IS NULL`)
    )
  }
}

export type Deliveries = ReturnType<typeof makeDeliveries>

interface LeaseRequest {
  readonly now: number
  readonly leaseUntil: number
}

type Delivered = Extract<DeliveryUpdate, { readonly _tag: "Delivered" }>
