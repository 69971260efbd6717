/** Commands that only list: webhooks, recipients of tings and telemetry. */
import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { list } from "../DatabaseAccess.ts"
import { misuse, refuse } from "../Host.ts"
import { argument, json, optionalText, page, plane, since } from "../Options.ts"
import { recipient, refusal, spool, webhook } from "../Records.ts"

const eventType = optionalText("type", "name", "event type, such as session.logout.v1")

const received = Command.make("list", { eventType, plane, since, page, json }, (given) =>
  list(webhook, given.json, (queries) => queries.webhooks(given, given.page))
).pipe(Command.withDescription("Lists the webhooks that were received, newest first"))

export const webhooks = Command.make("webhooks", {}, () => misuse("webhooks needs a command")).pipe(
  Command.withDescription("IAM's webhooks: list"),
  Command.withSubcommands([received])
)

const publicId = argument("public-id", "of whom: si:deejay, c:ana")
const organisation = optionalText("org", "handle", "handle of an organisation")

const registrations = Command.make("show", { publicId, organisation, plane, page, json }, (given) =>
  list(recipient, given.json, (queries) =>
    Effect.filterOrFail(
      queries.recipients({ ...given, publicId: Option.some(given.publicId) }, given.page),
      ({ items }) => items.length > 0,
      () =>
        refuse(
          `${given.publicId} was never registered here, or the registration ended long ago`,
          "an actor is registered at a login or by a subscription"
        )
    )
  )
).pipe(Command.withDescription("Shows where an actor is registered as a recipient of tings"))

export const recipients = Command.make("recipients", {}, () => misuse("recipients needs a command")).pipe(
  Command.withDescription("Recipients of tings: show"),
  Command.withSubcommands([registrations])
)

const totals = Command.make("list", { json }, (given) =>
  list(spool, given.json, (queries) => Effect.map(queries.spool, (items) => ({ items, next: Option.none() })))
).pipe(Command.withDescription("Shows by table what waits for shipping, and the totals since the beginning"))

const table = optionalText("table", "name", "table, such as musicclidaemon")
const code = optionalText("code", "code", "code of the table service, such as size_exceeded")

const refused = Command.make("refused", { table, code, since, page, json }, (given) =>
  list(refusal, given.json, (queries) => queries.refusals(given, given.page))
).pipe(
  Command.withDescription("Lists the events that the table service refused, newest first, with its code")
)

export const telemetry = Command.make("telemetry", {}, () => misuse("telemetry needs a command")).pipe(
  Command.withDescription("Telemetry that is shipped to the tables: list, refused"),
  Command.withSubcommands([totals, refused])
)
