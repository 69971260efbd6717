/** What lists, details and JSON (docs/cli.md) show of each record. Names are those of the API. */
import * as Option from "effect/Option"
import type { RecipientRecord, RefusalRecord, ReportRecord } from "../services/store/OperatorQueries.ts"
import type { InboxEvent, SpoolCounts, StoredDelivery } from "../services/Store.ts"
import { field, formatTime, type Noun, time, toJson } from "./Host.ts"

const { getOrNull } = Option

export const delivery: Noun<StoredDelivery> = {
  plural: "deliveries",
  fields: [
    field("id", "id", (it) => it.id),
    time("created_at", "created", (it) => it.createdAt),
    field("state", "state", (it) => it.state),
    field("attempts", "sent", (it) => it.attempts),
    {
      ...time("available_at", "next", (it) => it.availableAt),
      value: (it) => (Option.isSome(it.finishedAt) ? "" : formatTime(it.availableAt))
    },
    field("last_failure", "last failure", (it) => getOrNull(it.lastFailure)),
    field("kind", "", (it) => it.kind),
    field("subject", "", (it) => it.subject),
    field("looks", "", (it) => it.searches),
    time("sent_at", "", (it) => getOrNull(it.sentAt)),
    time("finished_at", "", (it) => getOrNull(it.finishedAt))
  ]
}

/** `anonymous`, `unverified` or the public id; none of a removed report. */
const reporterOf = ({ report: { removal, reporter } }: ReportRecord): string | null => {
  if (Option.isSome(removal)) return null
  return reporter._tag === "Verified" ? reporter.publicId : reporter._tag.toLowerCase()
}

/** The first words of the message, which may be long. */
const summaryOf = ({ report: { content, removal } }: ReportRecord): string =>
  Option.match(removal, {
    onNone: () => content.message.replaceAll(/\s+/g, " ").trim().slice(0, 120),
    onSome: ({ reason }) => `removed: ${reason}`
  })

const stateOf = (it: ReportRecord): string =>
  Option.match(it.delivery, { onNone: () => "", onSome: ({ state }) => state })
const issueOf = (it: ReportRecord): string =>
  Option.match(it.report.issue, { onNone: () => "", onSome: ({ number }) => `#${number}` })
const toDelivery = (it: ReportRecord) =>
  getOrNull(Option.map(it.delivery, (found) => toJson(delivery, found)))
const toRemoval = (it: ReportRecord) =>
  getOrNull(Option.map(it.report.removal, ({ at, reason }) => ({ at: new Date(at).toISOString(), reason })))

export const report: Noun<ReportRecord> = {
  plural: "reports",
  fields: [
    field("id", "id", (it) => it.report.id),
    time("created_at", "created", (it) => it.report.createdAt),
    field("status", "", (it) => (Option.isSome(it.report.issue) ? "filed" : "stored")),
    field("issue", "issue", (it) => getOrNull(it.report.issue), issueOf),
    field("delivery", "delivery", toDelivery, stateOf),
    field("reporter", "reporter", reporterOf),
    field("plane", "plane", (it) => it.report.plane),
    field("source", "", (it) => it.report.source),
    field("request_id", "", (it) => (Option.isNone(it.report.removal) ? it.report.requestId : null)),
    field("removed", "", toRemoval),
    field("summary", "message", summaryOf)
  ]
}

/** A report with its content. The store holds a placeholder for the message of a removed one. */
export const wholeReport: Noun<ReportRecord> = {
  ...report,
  fields: [
    ...report.fields.filter(({ name }) => name !== "summary"),
    field("pr", "", (it) => it.report.content.pr),
    field("message", "", (it) => (Option.isNone(it.report.removal) ? it.report.content.message : null)),
    field("context", "", (it) => it.report.content.context),
    field("attachments", "", (it) => it.report.content.attachments)
  ]
}

const aggregateOf = ({ aggregateId: id, aggregateType: type, aggregateVersion: version }: InboxEvent) => ({
  type,
  id,
  version
})

export const webhook: Noun<InboxEvent> = {
  plural: "webhooks",
  fields: [
    time("received_at", "received", (it) => it.receivedAt),
    field("event_id", "event", (it) => it.eventId),
    field("plane", "plane", (it) => it.plane),
    field("event_type", "type", (it) => it.eventType),
    field("aggregate", "about", aggregateOf, (it) => Object.values(aggregateOf(it)).join(" ")),
    field("occurred_at", "", (it) => it.occurredAt),
    field("organization_id", "", (it) => it.organisationUuid),
    // The store holds JSON as text.
    field("data", "", (it) => JSON.parse(it.data))
  ]
}

export const recipient: Noun<RecipientRecord> = {
  plural: "registrations",
  fields: [
    field("org_id", "organisation", (it) => it.organisation),
    field("plane", "plane", (it) => it.plane),
    field("active", "active", (it) => it.active),
    time("changed_at", "changed", (it) => it.changedAt),
    field("subscription_id", "subscription", (it) => getOrNull(it.subscriptionId)),
    field("public_id", "", (it) => it.publicId),
    field("organization_id", "", (it) => it.organisationUuid)
  ]
}

export const spool: Noun<SpoolCounts> = {
  plural: "events were accepted",
  fields: [
    field("table", "table", (it) => it.table),
    field("waiting", "waiting", (it) => it.waiting),
    field("waiting_bytes", "bytes", (it) => it.waitingBytes),
    field("accepted", "accepted", (it) => it.accepted),
    field("delivered", "delivered", (it) => it.delivered),
    field("duplicates", "duplicate", (it) => it.duplicates),
    field("expired", "expired", (it) => it.expired),
    field("refused", "refused", (it) => it.refused)
  ]
}

export const refusal: Noun<RefusalRecord> = {
  plural: "refused events",
  fields: [
    field("id", "event", (it) => it.recordId),
    time("refused_at", "refused", (it) => it.refusedAt),
    field("table", "table", (it) => it.tableName),
    field("bytes", "bytes", (it) => it.bytes),
    field("code", "code", (it) => it.code),
    time("event_at", "", (it) => it.eventAt)
  ]
}
