import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { productionId } from "../../services/Plane.ts"
import { OperatorQueries, type ReportFilter, type ReportRecord } from "../../services/OperatorQueries.ts"
import { Store } from "../../services/Store.ts"
import { onDatabase, onDatabaseToRead } from "../DatabaseAccess.ts"
import { notFound } from "../CommandFailed.ts"
import { json, pageOf, paging, plane, printPage, since, sinceOf } from "../Flags.ts"
import { type Colour, colourise, printFacts, printJson, printTable, Screen } from "../Screen.ts"
import { toDeliveryJson, reporterOf, toReportJson, summaryOf, toWholeReportJson } from "../JsonOutput.ts"
import { formatBytes, formatTime, toLines } from "../Text.ts"
import { resumeTracker, deliveryStateColour, deliveryStateOf, deliveryStates } from "./DeliveryState.ts"
import { exportReports } from "./ReportExport.ts"
import { found, id, missing, removedBefore } from "./FoundReport.ts"
import { remove } from "./ReportRemoval.ts"

const filters = {
  status: Options.choice("status", ["stored", "filed"]).pipe(
    Options.withDescription("filed: its issue exists in the tracker"),
    Options.optional
  ),
  delivery: Options.choice("delivery", deliveryStates).pipe(
    Options.withDescription("state of the delivery"),
    Options.optional
  ),
  reporter: Options.text("reporter").pipe(
    Options.withPseudoName("who"),
    Options.withDescription("a public id, or anonymous, or unverified"),
    Options.optional
  ),
  plane,
  since
}

const filterOf = (given: {
  readonly status: Option.Option<"stored" | "filed">
  readonly delivery: ReportFilter["delivery"]
  readonly reporter: Option.Option<string>
  readonly plane: Option.Option<string>
  readonly since: Option.Option<string>
}) =>
  Effect.map(
    sinceOf(given.since),
    (from): ReportFilter => ({
      since: from,
      plane: given.plane,
      reporter: given.reporter,
      delivery: given.delivery,
      filed: Option.map(given.status, (status) => status === "filed")
    })
  )

const stateOf = ({ delivery }: ReportRecord): string =>
  Option.match(delivery, { onNone: () => "", onSome: deliveryStateOf })

const stateColour = ({ delivery }: ReportRecord): Colour | undefined =>
  Option.getOrUndefined(Option.map(delivery, deliveryStateColour))

const list = Command.make("list", { ...filters, ...paging, json }, (given) =>
  Effect.flatMap(Effect.all([filterOf(given), pageOf(given)]), ([filter, request]) =>
    Effect.gen(function* () {
      const page = yield* (yield* OperatorQueries).reports(filter, request)
      yield* printPage(page, {
        json: given.json,
        toJson: toReportJson,
        nouns: "reports",
        table: (items) =>
          printTable(
            [
              { title: "ID", of: ({ report }) => report.id },
              { title: "CREATED", drop: 2, of: ({ report }) => formatTime(report.createdAt) },
              {
                title: "ISSUE",
                of: ({ report }) =>
                  Option.match(report.issue, { onNone: () => "", onSome: ({ number }) => `#${number}` })
              },
              { title: "DELIVERY", of: stateOf, colour: stateColour },
              { title: "REPORTER", drop: 3, of: (item) => Option.getOrElse(reporterOf(item), () => "") },
              ...(items.some(({ report }) => report.plane !== productionId)
                ? [{ title: "PLANE", drop: 1, of: ({ report }: ReportRecord) => report.plane }]
                : []),
              { title: "MESSAGE", of: summaryOf, elastic: true }
            ],
            items
          )
      })
    }).pipe(onDatabaseToRead)
  )
).pipe(Command.withDescription("Lists reports, newest first"))

const block = (title: string, text: string) =>
  Effect.flatMap(Screen, (screen) =>
    screen.out(
      ["", colourise(screen, "bold", title), ...toLines(text).map((line) => `  ${line}`.trimEnd())].join("\n")
    )
  )

const printReport = (record: ReportRecord) =>
  Effect.gen(function* () {
    const isRemoved = Option.isSome(record.removal)
    const { content, createdAt, issue, requestId, source } = record.report
    yield* printFacts([
      ["id", record.report.id],
      ["created", formatTime(createdAt)],
      [
        "removed",
        Option.getOrUndefined(
          Option.map(record.removal, ({ reason, removedAt }) => `${formatTime(removedAt)}: ${reason}`)
        )
      ],
      ["reporter", Option.getOrUndefined(reporterOf(record))],
      ["source", source],
      ["plane", record.report.plane],
      ["request", isRemoved ? undefined : requestId],
      ["pull request", content.pr ?? undefined],
      ["issue", Option.match(issue, { onNone: () => "not filed", onSome: ({ url }) => url })],
      [
        "delivery",
        Option.match(record.delivery, {
          onNone: () => "none",
          onSome: (delivery) => `${deliveryStateOf(delivery)}, ${delivery.attempts} sent (${delivery.id})`
        })
      ],
      [
        "last failure",
        Option.getOrUndefined(Option.flatMap(record.delivery, ({ lastFailure }) => lastFailure))
      ]
    ])
    if (isRemoved) return
    yield* block("Message", content.message)
    if (content.context !== null) yield* block("Context", JSON.stringify(content.context, null, 2))
    for (const { content: text, name } of content.attachments)
      yield* block(`Attachment ${toLines(name).join(" ")}, ${formatBytes(Buffer.byteLength(text))}`, text)
  })

const show = Command.make("show", { id, json }, (given) =>
  Effect.gen(function* () {
    const record = yield* found(given.id)
    yield* given.json ? printJson(toWholeReportJson(record)) : printReport(record)
  }).pipe(onDatabaseToRead)
).pipe(Command.withDescription("Shows a report with its content"))

const retry = Command.make("retry", { id, json }, (given) =>
  Effect.gen(function* () {
    const { removal, report } = yield* found(given.id)
    if (Option.isSome(removal)) return yield* removedBefore(removal.value)
    if (report.plane !== productionId)
      return yield* notFound(
        `${report.id} belongs to a testing plane and is never filed`,
        "choose a report of production"
      )
    if (Option.isSome(report.issue))
      return yield* notFound(`${report.id} is filed already`, `see ${report.issue.value.url}`)
    const now = yield* Clock.currentTimeMillis
    const records = yield* OperatorQueries
    const { deliveries } = yield* Store
    const done =
      (yield* records.enqueue(report.id, now)) || (yield* deliveries.retry(`report:${report.id}`, now))
    const { delivery } = yield* found(report.id)
    if (Option.isNone(delivery)) return yield* missing(report.id)
    if (!done)
      return yield* notFound(
        `the delivery of ${report.id} is ${delivery.value.state}: nothing to retry`,
        "wait, and check it with music-backend reports show"
      )
    const note = yield* resumeTracker
    if (given.json) return yield* printJson(toDeliveryJson(delivery.value))
    const screen = yield* Screen
    yield* screen.out(`${report.id} is due now (${delivery.value.state})`)
    yield* screen.err(note)
  }).pipe(onDatabase)
).pipe(
  Command.withDescription(
    "Delivers a report again, now; also a report that was stored before a tracker was set"
  )
)

const export_ = Command.make("export", filters, (given) =>
  Effect.flatMap(filterOf(given), (filter) => onDatabaseToRead(exportReports(filter)))
).pipe(
  Command.withDescription("Writes complete reports to standard output, one JSON object a line, newest first")
)

export const reports = Command.make("reports").pipe(
  Command.withDescription("Bug reports: list, show, export, retry, remove"),
  Command.withSubcommands([list, show, export_, retry, remove])
)
