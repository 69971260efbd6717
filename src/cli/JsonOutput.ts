/** Records as JSON (docs/cli.md): names as in the API, times as ISO 8601 in UTC, null for absent values. */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type {
  DeliveryRecord,
  RecipientRecord,
  RefusalRecord,
  Removal,
  ReportRecord,
  SpoolRecord
} from "../services/OperatorQueries.ts"
import type { InboxEvent, Reporter } from "../services/Store.ts"
import { truncate } from "./Text.ts"

const iso = (milliseconds: number): string => new Date(milliseconds).toISOString()
const isoOrNull = (milliseconds: Option.Option<number>): string | null =>
  Option.getOrNull(Option.map(milliseconds, iso))

const nameOf = (reporter: Reporter): string => {
  switch (reporter._tag) {
    case "Anonymous":
      return "anonymous"
    case "Unverified":
      return "unverified"
    case "Verified":
      return reporter.publicId
  }
}

/** `anonymous`, `unverified` or the public id; none of a removed report. */
export const reporterOf = ({ removal, report }: ReportRecord): Option.Option<string> =>
  Option.isSome(removal) ? Option.none() : Option.some(nameOf(report.reporter))

/** The first words of the message. */
export const summaryOf = ({ removal, report }: ReportRecord): string =>
  Option.isSome(removal)
    ? `removed: ${removal.value.reason}`
    : truncate(report.content.message.replaceAll(/\s+/g, " ").trim(), 120)

export const toDeliveryJson = (delivery: DeliveryRecord) => ({
  id: delivery.id,
  kind: delivery.kind,
  subject: delivery.subject,
  state: delivery.state,
  attempts: delivery.attempts,
  looks: delivery.searches,
  created_at: iso(delivery.createdAt),
  available_at: iso(delivery.availableAt),
  sent_at: isoOrNull(delivery.sentAt),
  last_failure: Option.getOrNull(delivery.lastFailure),
  discarded_at: isoOrNull(delivery.discardedAt),
  finished_at: isoOrNull(delivery.finishedAt)
})

const toRemovalJson = ({ reason, removedAt }: Removal) => ({ at: iso(removedAt), reason })

export const toReportJson = (record: ReportRecord) => ({
  id: record.report.id,
  created_at: iso(record.report.createdAt),
  plane: record.report.plane,
  reporter: Option.getOrNull(reporterOf(record)),
  source: record.report.source,
  request_id: Option.isSome(record.removal) ? null : record.report.requestId,
  status: Option.isSome(record.report.issue) ? "filed" : "stored",
  issue: Option.getOrNull(record.report.issue),
  delivery: Option.getOrNull(Option.map(record.delivery, toDeliveryJson)),
  removed: Option.getOrNull(Option.map(record.removal, toRemovalJson)),
  summary: summaryOf(record)
})

/** A report with its content; the store holds a placeholder for the message of a removed one. */
export const toWholeReportJson = (record: ReportRecord) => {
  const { summary: _, ...shape } = toReportJson(record)
  const { message, ...content } = record.report.content
  return { ...shape, message: Option.isSome(record.removal) ? null : message, ...content }
}

export const toSpoolJson = (record: SpoolRecord) => ({
  table: record.table,
  waiting: record.waiting,
  waiting_bytes: record.waitingBytes,
  oldest_at: isoOrNull(record.oldestAt),
  accepted: record.accepted,
  delivered: record.delivered,
  duplicates: record.duplicates,
  expired: record.expired,
  refused: record.refused
})

export const toRefusalJson = (record: RefusalRecord) => ({
  id: record.recordId,
  table: record.table,
  code: record.code,
  bytes: record.bytes,
  event_at: iso(record.eventAt),
  refused_at: iso(record.refusedAt)
})

/** The store holds JSON as text. */
const parsed = (text: string): unknown =>
  Either.getOrElse(
    Either.try((): unknown => JSON.parse(text)),
    () => text
  )

export const toWebhookJson = (event: InboxEvent) => ({
  event_id: event.eventId,
  event_type: event.eventType,
  plane: event.plane,
  received_at: iso(event.receivedAt),
  occurred_at: event.occurredAt,
  organization_id: event.organisationUuid,
  aggregate: { type: event.aggregateType, id: event.aggregateId, version: event.aggregateVersion },
  data: parsed(event.data)
})

export const toRecipientJson = (recipient: RecipientRecord) => ({
  public_id: recipient.publicId,
  plane: recipient.plane,
  org_id: recipient.organisation,
  organization_id: recipient.organisationUuid,
  subscription_id: Option.getOrNull(recipient.subscriptionId),
  active: recipient.active,
  changed_at: iso(recipient.changedAt)
})
