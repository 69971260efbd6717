import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { OperatorQueries } from "../../services/OperatorQueries.ts"
import { onDatabaseToRead } from "../DatabaseAccess.ts"
import { json, pageOf, paging, printPage, since, sinceOf } from "../Flags.ts"
import { toRefusalJson, toSpoolJson } from "../JsonOutput.ts"
import { printTable } from "../Screen.ts"
import { formatBytes, formatTime } from "../Text.ts"

const list = Command.make("list", { json }, (given) =>
  Effect.gen(function* () {
    const items = yield* (yield* OperatorQueries).spool
    yield* printPage(
      { items, next: Option.none() },
      {
        json: given.json,
        toJson: toSpoolJson,
        nouns: "events were accepted",
        table: (rows) =>
          printTable(
            [
              { title: "TABLE", of: (row) => row.table },
              { title: "WAITING", of: (row) => String(row.waiting) },
              { title: "BYTES", drop: 4, of: (row) => formatBytes(row.waitingBytes) },
              {
                title: "OLDEST",
                drop: 1,
                of: (row) => Option.match(row.oldestAt, { onNone: () => "", onSome: formatTime })
              },
              { title: "ACCEPTED", of: (row) => String(row.accepted) },
              { title: "DELIVERED", of: (row) => String(row.delivered) },
              { title: "DUPLICATE", drop: 2, of: (row) => String(row.duplicates) },
              { title: "EXPIRED", drop: 3, of: (row) => String(row.expired) },
              {
                title: "REFUSED",
                of: (row) => String(row.refused),
                colour: (row) => (row.refused > 0 ? "yellow" : undefined)
              }
            ],
            rows
          )
      }
    )
  }).pipe(onDatabaseToRead)
).pipe(
  Command.withDescription(
    "Shows by table what waits for shipping, and the totals since the database was created"
  )
)

const filters = {
  table: Options.text("table").pipe(
    Options.withPseudoName("name"),
    Options.withDescription("table, such as musicclidaemon"),
    Options.optional
  ),
  code: Options.text("code").pipe(
    Options.withDescription("code of the table service, such as size_exceeded"),
    Options.optional
  ),
  since
}

const refused = Command.make("refused", { ...filters, ...paging, json }, (given) =>
  Effect.flatMap(Effect.all([sinceOf(given.since), pageOf(given)]), ([from, request]) =>
    Effect.gen(function* () {
      const filter = { table: given.table, code: given.code, since: from }
      const page = yield* (yield* OperatorQueries).refusals(filter, request)
      yield* printPage(page, {
        json: given.json,
        toJson: toRefusalJson,
        nouns: "refused events",
        table: (items) =>
          printTable(
            [
              { title: "EVENT", of: (item) => item.recordId },
              { title: "REFUSED", drop: 2, of: (item) => formatTime(item.refusedAt) },
              { title: "TABLE", of: (item) => item.table },
              { title: "BYTES", drop: 1, of: (item) => String(item.bytes) },
              { title: "CODE", of: (item) => item.code }
            ],
            items
          )
      })
    }).pipe(onDatabaseToRead)
  )
).pipe(
  Command.withDescription("Lists the events that the table service refused, newest first, with its code")
)

export const telemetry = Command.make("telemetry").pipe(
  Command.withDescription("Telemetry that is shipped to the tables: list, refused"),
  Command.withSubcommands([list, refused])
)
