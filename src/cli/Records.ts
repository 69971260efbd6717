/** What lists, details and JSON (docs/cli.md) show of each record. Names are those of the API. */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import type {
  DeliveryRecord,
  RecipientRecord,
  RefusalRecord,
  ReportRecord,
  SpoolRecord
} from "../services/OperatorQueries.ts"
import type { InboxEvent, StoredDelivery } from "../services/Store.ts"
import { type RecordField, field, formatCount, formatTime, type Noun, time, toJson } from "./Output.ts"

const { getOrNull } = Option

/** A discarded delivery is shown as `discarded`, not as `failed`. */
const shownState = ({ discardedAt, state }: StoredDelivery): string =>
  Option.isSome(discardedAt) ? "discarded" : state

export const isOver = ({ state }: StoredDelivery): boolean => state === "delivered" || state === "failed"

/** The next attempt is not before `pausedUntil`, the end of the tracker's pause. */
const nextOf = (pausedUntil: number) => (it: DeliveryRecord) =>
  isOver(it) ? null : Math.max(it.availableAt, pausedUntil)

export const delivery = (pausedUntil = 0): Noun<DeliveryRecord> => ({
  plural: "deliveries",
  columns: 6,
  fields: [
    field("id", "id", (it) => it.id),
    time("created_at", "created", (it) => it.createdAt),
    field("state", "state", (it) => it.state, shownState),
    field("attempts", "sent", (it) => it.attempts),
    time("", "next", nextOf(pausedUntil)),
    field("last_failure", "last failure", (it) => getOrNull(it.lastFailure)),
    field("kind", "kind", (it) => it.kind),
    field("subject", "of", (it) => it.subject),
    field("looks", "looks without a hit", (it) => it.searches),
    time("available_at", "", (it) => it.availableAt),
    time("sent_at", "last sent", (it) => getOrNull(it.sentAt)),
    time("discarded_at", "discarded", (it) => getOrNull(it.discardedAt)),
    time("finished_at", "over", (it) => getOrNull(it.finishedAt))
  ]
})

/** `anonymous`, `unverified` or the public id; none of a removed report. */
const reporterOf = ({ removal, report: { reporter } }: ReportRecord): string | null => {
  if (Option.isSome(removal)) return null
  return reporter._tag === "Verified" ? reporter.publicId : reporter._tag.toLowerCase()
}

const longestSummary = 120

/** The first words of the message. */
const summaryOf = ({ removal, report: { content } }: ReportRecord): string => {
  if (Option.isSome(removal)) return `removed: ${removal.value.reason}`
  const characters = [...content.message.replaceAll(/\s+/g, " ").trim()]
  const isLong = characters.length > longestSummary
  return isLong ? `${characters.slice(0, longestSummary - 1).join("")}…` : characters.join("")
}

const text = (value: Option.Option<string>): string => Option.getOrElse(value, () => "")

const issueNumber = ({ report: { issue } }: ReportRecord) =>
  text(Option.map(issue, ({ number }) => `#${number}`))
const issueAddress = ({ report: { issue } }: ReportRecord) =>
  Option.match(issue, { onNone: () => "not filed", onSome: ({ url }) => url })
const deliveryJson = (it: ReportRecord) =>
  getOrNull(Option.map(it.delivery, (found) => toJson(delivery().fields, found)))
const removalJson = ({ removal }: ReportRecord) =>
  getOrNull(Option.map(removal, ({ reason, removedAt }) => ({ at: new Date(removedAt), reason })))
const removalText = ({ removal }: ReportRecord) =>
  text(Option.map(removal, ({ reason, removedAt }) => `${formatTime(removedAt)}: ${reason}`))

/** The store holds a placeholder for the message of a removed report. */
const messageOf = ({ removal, report: { content } }: ReportRecord) =>
  Option.isSome(removal) ? null : content.message

const contextText = ({ report: { content } }: ReportRecord) =>
  content.context === null ? "" : JSON.stringify(content.context, null, 2)
const attachmentsText = ({ report: { content } }: ReportRecord) =>
  content.attachments
    .map((it) => `${it.name}, ${formatCount(Buffer.byteLength(it.content), "byte")}\n${it.content}`)
    .join("\n\n")

const reportFields: ReadonlyArray<RecordField<ReportRecord>> = [
  field("id", "id", (it) => it.report.id),
  time("created_at", "created", (it) => it.report.createdAt),
  field("issue", "issue", (it) => getOrNull(it.report.issue), issueNumber),
  field("delivery", "delivery", deliveryJson, (it) => text(Option.map(it.delivery, shownState))),
  field("reporter", "reporter", reporterOf),
  field("plane", "plane", (it) => it.report.plane),
  field("summary", "message", summaryOf),
  field("status", "filed as", (it) => (Option.isSome(it.report.issue) ? "filed" : "stored"), issueAddress),
  field("", "last failure", (it) => text(Option.flatMap(it.delivery, ({ lastFailure }) => lastFailure))),
  field("source", "source", (it) => it.report.source),
  field("request_id", "request", (it) => (Option.isNone(it.removal) ? it.report.requestId : null)),
  field("removed", "removed", removalJson, removalText)
]

export const report: Noun<ReportRecord> = { plural: "reports", columns: 7, fields: reportFields }

/** A report with its content. */
export const wholeReport: ReadonlyArray<RecordField<ReportRecord>> = [
  ...reportFields.filter(({ name }) => name !== "summary"),
  field("pr", "pull request", (it) => it.report.content.pr),
  field("message", "message", messageOf),
  field("context", "context", (it) => it.report.content.context, contextText),
  field("attachments", "attachments", (it) => it.report.content.attachments, attachmentsText)
]

/** The store holds JSON as text. */
const parse = (json: string): unknown =>
  Either.getOrElse(
    Either.try((): unknown => JSON.parse(json)),
    () => json
  )

const aggregateOf = ({ aggregateId: id, aggregateType: type, aggregateVersion: version }: InboxEvent) => ({
  type,
  id,
  version
})

export const webhook: Noun<InboxEvent> = {
  plural: "webhooks",
  columns: 5,
  fields: [
    time("received_at", "received", (it) => it.receivedAt),
    field("event_id", "event", (it) => it.eventId),
    field("plane", "plane", (it) => it.plane),
    field("event_type", "type", (it) => it.eventType),
    field("aggregate", "about", aggregateOf, (it) => Object.values(aggregateOf(it)).join(" ")),
    field("occurred_at", "", (it) => it.occurredAt),
    field("organization_id", "", (it) => it.organisationUuid),
    field("data", "", (it) => parse(it.data))
  ]
}

export const recipient: Noun<RecipientRecord> = {
  plural: "registrations",
  columns: 5,
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

export const spool: Noun<SpoolRecord> = {
  plural: "events were accepted",
  columns: 9,
  fields: [
    field("table", "table", (it) => it.table),
    field("waiting", "waiting", (it) => it.waiting),
    field("waiting_bytes", "bytes", (it) => it.waitingBytes),
    time("oldest_at", "oldest", (it) => getOrNull(it.oldestAt)),
    field("accepted", "accepted", (it) => it.accepted),
    field("delivered", "delivered", (it) => it.delivered),
    field("duplicates", "duplicate", (it) => it.duplicates),
    field("expired", "expired", (it) => it.expired),
    field("refused", "refused", (it) => it.refused)
  ]
}

export const refusal: Noun<RefusalRecord> = {
  plural: "refused events",
  columns: 5,
  fields: [
    field("id", "event", (it) => it.recordId),
    time("refused_at", "refused", (it) => it.refusedAt),
    field("table", "table", (it) => it.table),
    field("bytes", "bytes", (it) => it.bytes),
    field("code", "code", (it) => it.code),
    time("event_at", "", (it) => it.eventAt)
  ]
}
