import type { SqlClient } from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import type { Fragment } from "@effect/sql/Statement"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { beyondReason, latestLeaseEnd } from "../../../services/ClockSkew.ts"
import type { DeliveryStatus } from "../../../services/OperatorQueries.ts"
import type {
  Deliveries,
  Delivery,
  DeliveryKind,
  DeliveryUpdate,
  StoredDelivery
} from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { all, any, first, OptionalText, OptionalWhole, Whole } from "./Rows.ts"

/** The kinds of this version. Rows of others belong to a later version: they are listed, and never changed. */
export const knownKinds = ["report", "sweep"] as const satisfies ReadonlyArray<DeliveryKind>

const Row = Schema.Struct({
  id: Schema.String,
  kind: Schema.String,
  subject: Schema.String,
  state: Schema.String,
  attempts: Whole,
  available_at: Whole,
  sending_at: OptionalWhole,
  sent_at: OptionalWhole,
  looks: Whole,
  last_failure: OptionalText,
  fence: Whole,
  created_at: Whole,
  priority: Whole,
  discarded_at: OptionalWhole
})
type Row = typeof Row.Type

/** What this version leases is of its own kinds and states. */
const LeasedRow = Schema.Struct({
  ...Row.fields,
  kind: Schema.Literal(...knownKinds),
  leased_from: Schema.Literal("waiting", "unknown")
})

/** `sending_at` is a send whose outcome nobody has told yet; until then it may have happened. */
const toDelivery = <Kind extends string, State extends string>(
  row: Row & { readonly kind: Kind; readonly state: State }
): StoredDelivery & { readonly kind: Kind; readonly state: State } => ({
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
  createdAt: row.created_at,
  discardedAt: row.state === "failed" ? row.discarded_at : Option.none()
})

/** Whose turn comes before others' (`first`), and everybody else. */
export const priorities = { first: 0, usual: 1 } as const

/**
 * For the transaction that stores the cause. One delivery of a kind for a subject: a second one changes nothing.
 * `unknown` is one that may have happened before, so that it is looked for first.
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
    readonly state?: "waiting" | "unknown"
  }
): Effect.Effect<void, SqlError> =>
  Effect.asVoid(sql`
    INSERT INTO deliveries (id, kind, subject, state, attempts, available_at, looks, fence, created_at, priority)
    VALUES
      (${`${kind}:${subject}`}, ${kind}, ${subject}, ${state}, 0, ${availableAt}, 0, 0, ${createdAt},
       ${priorities[priority]})
    ON CONFLICT (id) DO NOTHING`)

/** For the transaction that learns who the reporter of an earlier report was. */
export const bringToFront = (sql: SqlClient, { kind, subject }: Pick<Delivery, "kind" | "subject">) =>
  Effect.asVoid(sql`UPDATE deliveries SET priority = ${priorities.first} WHERE id = ${`${kind}:${subject}`}`)

/** Rows of a state; a discarded one has failed, and is none of those that did. */
export const hasStatus = (sql: SqlClient, wanted: DeliveryStatus): Fragment => {
  switch (wanted) {
    case "discarded":
      return sql`(deliveries.state = 'failed' AND deliveries.discarded_at IS NOT NULL)`
    case "failed":
      return sql`(deliveries.state = 'failed' AND deliveries.discarded_at IS NULL)`
    default:
      return sql`deliveries.state = ${wanted}`
  }
}

const day = 24 * 3_600_000

/** `wake` is run after a commit that may let another worker go on. */
export const makeDeliveries = (
  { sql, read, write, alone, skipLocked }: Database,
  wake: Effect.Effect<void> = Effect.void
): Deliveries => {
  /**
   * When it was sent. A time that has not come yet says nothing: then it is looked for from its creation, or, when that has not come
   * either, from the day before.
   */
  const sentBy = (now: number) => sql`
    CASE
      WHEN COALESCE(sending_at, sent_at) > ${now}
        THEN CASE WHEN created_at <= ${now} THEN created_at ELSE ${now - day} END
      ELSE COALESCE(sending_at, sent_at)
    END`

  /**
   * Takes up what nobody holds any more. A holder that died while sending leaves an unknown outcome, to be looked into from the start.
   * A lease by a clock that was ahead ends now; should its holder live, the fence keeps it from writing.
   */
  const recover = (kinds: ReadonlyArray<DeliveryKind>, now: number, latestEnd: number) => sql`
    UPDATE deliveries SET
      state = CASE WHEN sending_at IS NULL THEN leased_from ELSE 'unknown' END,
      looks = CASE WHEN sending_at IS NULL THEN looks ELSE 0 END,
      sent_at = ${sentBy(now)},
      sending_at = NULL, ${released}
    WHERE ${sql.in("kind", kinds)} AND state = 'leased'
      AND (lease_until <= ${now} OR lease_until > ${latestEnd})`

  /** What a clock that was ahead has put off is due now. */
  const bringForward = (kinds: ReadonlyArray<DeliveryKind>, now: number) => sql`
    UPDATE deliveries SET available_at = ${now}, sent_at = ${sentBy(now)}
    WHERE ${sql.in("kind", kinds)} AND state IN ('waiting', 'unknown')
      AND ${sql.in("priority", Object.values(priorities))} AND available_at > ${beyondReason(now)}`

  /**
   * The first of what nobody holds, in each part of the index that is in the order of time. A condition on all of it at once would read
   * and sort whatever waits.
   */
  const heads = (
    kinds: ReadonlyArray<DeliveryKind>,
    { count, dueBy, lock }: { readonly count: number; readonly dueBy?: number; readonly lock?: Fragment }
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

  const held = (kinds: ReadonlyArray<DeliveryKind>) =>
    all(Schema.Struct({ count: Whole, ends_at: OptionalWhole }))(sql`
      SELECT COUNT(*) AS count, MIN(lease_until) AS ends_at
      FROM deliveries WHERE ${sql.in("kind", kinds)} AND state = 'leased'`).pipe(
      Effect.map(([row]) => row ?? { count: 0, ends_at: Option.none() })
    )

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
          discarded_at = NULL, sending_at = NULL, ${released}`
    }
  }

  const noteDelivery = ({ subject }: Row, { at, issue, sweepAt }: Delivered) =>
    Effect.gen(function* () {
      if (Option.isSome(issue))
        yield* sql`
          UPDATE reports SET issue_number = ${issue.value.number}, issue_url = ${issue.value.url}
          WHERE id = ${subject}`
      if (Option.isSome(sweepAt))
        yield* enqueue(sql, {
          kind: "sweep",
          subject,
          createdAt: at,
          availableAt: sweepAt.value,
          priority: "first"
        })
    })

  /** What is leased is its holder's, and what was delivered is over. */
  const byOperator = (
    operation: string,
    id: string,
    changes: Fragment,
    among: Fragment = sql`state IN ('waiting', 'unknown', 'failed')`
  ) =>
    write(
      operation,
      any(sql`
        UPDATE deliveries SET ${changes}
        WHERE id = ${id} AND ${sql.in("kind", knownKinds)} AND ${among} RETURNING id`),
      (changed) => (changed ? wake : Effect.void)
    )

  return {
    lease: ({ kinds, count, concurrency, now, leaseUntil, owner }) =>
      write(
        "Deliveries.lease",
        Effect.gen(function* () {
          // One claim at a time, so that no two of them count the same free places.
          yield* alone(`deliveries ${[...kinds].sort().join(" ")}`)
          yield* recover(kinds, now, latestLeaseEnd(now, leaseUntil))
          yield* bringForward(kinds, now)
          const free = Math.min(count, concurrency - (yield* held(kinds)).count)
          if (free <= 0) return []
          // Chosen once: as a subquery it may run for each row again, and pass over what it has locked before, to the next ones.
          // `unknown` sorts before `waiting`: looks for what may have been sent have their times, and write nothing.
          const leased = yield* all(LeasedRow)(sql`
            WITH due AS MATERIALIZED (
              SELECT id FROM (${heads(kinds, { count: free, dueBy: now, lock: skipLocked })}) AS heads
              ORDER BY state, priority, available_at, id LIMIT ${free})
            UPDATE deliveries SET
              state = 'leased', leased_from = state, fence = fence + 1,
              lease_owner = ${owner}, lease_until = ${leaseUntil}
            WHERE id IN (SELECT id FROM due)
            RETURNING *`)
          return leased
            .map((row) => ({ ...row, state: row.leased_from }))
            .sort(byTurn)
            .map((row): Delivery => toDelivery(row))
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
          if (update._tag === "Delivered") yield* noteDelivery(row, update)
          return true
        }),
        // A place is free again, for whichever process.
        (changed) => (changed && update._tag !== "Sending" ? wake : Effect.void)
      ),
    nextDueAt: (kinds, concurrency = Number.POSITIVE_INFINITY) =>
      Effect.gen(function* () {
        const { count, ends_at } = yield* read("Deliveries.held", held(kinds))
        if (count >= concurrency) return ends_at
        const due = yield* read(
          "Deliveries.nextDueAt",
          all(Schema.Struct({ available_at: Whole }))(sql`${heads(kinds, { count: 1 })}`)
        )
        const times = [...Option.toArray(ends_at), ...due.map((row) => row.available_at)]
        return times.length === 0 ? Option.none() : Option.some(Math.min(...times))
      }),
    find: (id) =>
      read("Deliveries.find", first(Row)(sql`SELECT * FROM deliveries WHERE id = ${id}`)).pipe(
        Effect.map(Option.map(toDelivery))
      ),
    // Whatever was ever sent may stand there, also when its last attempt was refused; the looks begin anew. What failed or
    // was discarded may have been uncertain before.
    retry: (id, now, { onlyFailed } = { onlyFailed: false }) =>
      byOperator(
        "Deliveries.retry",
        id,
        sql`
          state = CASE
            WHEN attempts > 0 OR sent_at IS NOT NULL OR state <> 'waiting'
            THEN 'unknown' ELSE 'waiting' END,
          priority = ${priorities.first}, available_at = ${now}, looks = 0, finished_at = NULL, discarded_at = NULL`,
        onlyFailed ? hasStatus(sql, "failed") : undefined
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
        SELECT kind, state, count FROM delivery_counts
        WHERE state <> 'discarded' AND count > 0
        ORDER BY kind, state`)
    ),
    // A sweep waits on purpose, and would hide for how long a report waits.
    oldestOpen: read(
      "Deliveries.oldestOpen",
      first(Schema.Struct({ created_at: OptionalWhole }))(sql`
        SELECT MIN(created_at) AS created_at FROM deliveries
        WHERE kind = 'report' AND finished_at IS NULL`)
    ).pipe(Effect.map(Option.flatMap((row) => row.created_at)))
  }
}

type Delivered = Extract<DeliveryUpdate, { readonly _tag: "Delivered" }>

/** The order of a claim: what may have been sent, then by priority, then what is due longest. */
const byTurn = (one: Row, other: Row): number =>
  Number(one.state !== "unknown") - Number(other.state !== "unknown") ||
  one.priority - other.priority ||
  one.available_at - other.available_at ||
  (one.id < other.id ? -1 : 1)

/** For whoever lists deliveries. */
export { Row as DeliveryRow, toDelivery }
