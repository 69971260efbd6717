/** Commands that only list: webhooks, recipients of tings and telemetry. */
import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { Store } from "../../services/Store.ts"
import { list, onDatabase } from "../DatabaseAccess.ts"
import { group, printPage } from "../Host.ts"
import { argument, json, optionalText, page, plane, since } from "../Options.ts"
import { recipient, refusal, spool, webhook } from "../Records.ts"

const eventType = optionalText("type", "name", "event type, such as session.logout.v1")

const received = Command.make("list", { eventType, plane, since, page, json }, (given) =>
  list(webhook, given.json, (queries) => queries.webhooks(given, given.page))
).pipe(Command.withDescription("Lists the webhooks that were received, newest first"))

export const webhooks = group("webhooks", "IAM's webhooks: list").pipe(Command.withSubcommands([received]))

const publicId = argument("public-id", "of whom: si:deejay, c:ana")
const organisation = optionalText("org", "handle", "handle of an organisation")

const registrations = Command.make("show", { publicId, organisation, plane, page, json }, (given) =>
  list(recipient, given.json, (queries) =>
    queries.recipients({ ...given, publicId: Option.some(given.publicId) }, given.page)
  )
).pipe(Command.withDescription("Shows where an actor is registered as a recipient of tings"))

export const recipients = group("recipients", "Recipients of tings: show").pipe(
  Command.withSubcommands([registrations])
)

const totals = Command.make("list", { json }, (given) =>
  Store.pipe(
    Effect.flatMap(({ spool: { counts } }) => counts),
    Effect.flatMap((items) => printPage(spool, { items, next: Option.none() }, given.json)),
    onDatabase
  )
).pipe(Command.withDescription("Shows by table what waits for shipping, and the totals since the beginning"))

const table = optionalText("table", "name", "table, such as musicclidaemon")
const code = optionalText("code", "code", "code of the table service, such as size_exceeded")

const refused = Command.make("refused", { table, code, since, page, json }, (given) =>
  list(refusal, given.json, (queries) => queries.refusals(given, given.page))
).pipe(Command.withDescription("Lists the events that the table service refused, with its code"))

export const telemetry = group("telemetry", "Telemetry that is shipped to the tables: list, refused").pipe(
  Command.withSubcommands([totals, refused])
)
