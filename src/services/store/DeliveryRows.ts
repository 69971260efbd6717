/** Rows of `deliveries`, and the writes that other repositories make in their own transactions. */
import type { SqlClient } from "@effect/sql/SqlClient"
import type { Fragment } from "@effect/sql/Statement"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { OptionalText, OptionalWhole, Whole } from "./Rows.ts"
import { any, run, type Statements } from "./Statements.ts"

export const deliveryStates = ["waiting", "leased", "unknown", "delivered", "failed"] as const
export type DeliveryState = (typeof deliveryStates)[number]
/** `failed` deliveries wait for an operator; `discarded` ones are those that an operator gave up. */
export type DeliveryStatus = DeliveryState | "discarded"
/** `report`: file it as an issue. `sweep`: search, much later, for duplicates of an issue that was sent more than once. */
export const deliveryKinds = ["report", "sweep"] as const
export type DeliveryKind = (typeof deliveryKinds)[number]

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
  /** A send whose outcome is not recorded: it may have succeeded. */
  sendingAt: OptionalWhole,
  /** When the last attempt that may have succeeded was sent; none before the first. */
  sentAt: OptionalWhole,
  /** Complete searches after an unknown outcome that found nothing. */
  searches: Schema.propertySignature(Whole).pipe(Schema.fromKey("looks")),
  lastFailure: OptionalText,
  /** Grows with every lease; a write under an older one changes nothing. */
  fence: Whole,
  createdAt: Whole,
  /** When an operator gave it up; only a `failed` delivery has it. */
  discardedAt: OptionalWhole
})
export type DeliveryRow = typeof DeliveryRow.Type

export interface StoredDelivery extends Omit<DeliveryRow, "sendingAt"> {}

/** A delivery that may be leased. */
export interface Delivery extends StoredDelivery {
  readonly kind: DeliveryKind
  readonly state: DeliveryState
}

export const toDelivery = <Row extends DeliveryRow>({ sendingAt, ...row }: Row) => ({
  ...row,
  sentAt: Option.orElse(sendingAt, () => row.sentAt),
  discardedAt: row.state === "failed" ? row.discardedAt : Option.none<number>()
})

/** Order of leasing among due deliveries of one state. */
export const priorities = { first: 0, usual: 1 } as const

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
    readonly state?: "waiting" | "unknown"
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

/** Condition for rows of a status; a discarded delivery is stored as failed. */
export const hasStatus = (sql: SqlClient, status: DeliveryStatus): Fragment => {
  switch (status) {
    case "discarded":
      return sql`(deliveries.state = 'failed' AND deliveries.discarded_at IS NOT NULL)`
    case "failed":
      return sql`(deliveries.state = 'failed' AND deliveries.discarded_at IS NULL)`
    default:
      return sql`deliveries.state = ${status}`
  }
}
