import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { OperatorQueries } from "../../services/OperatorQueries.ts"
import { onDatabaseToRead } from "../DatabaseAccess.ts"
import { notFound } from "../CommandFailed.ts"
import { json, pageOf, paging, plane, printPage } from "../Flags.ts"
import { printTable } from "../Screen.ts"
import { toRecipientJson } from "../JsonOutput.ts"
import { formatTime } from "../Text.ts"

const publicId = Args.text({ name: "public-id" }).pipe(Args.withDescription("of whom: si:deejay, c:ana"))
const organisation = Options.text("org").pipe(
  Options.withPseudoName("handle"),
  Options.withDescription("handle of an organisation"),
  Options.optional
)

const show = Command.make("show", { publicId, org: organisation, plane, ...paging, json }, (given) =>
  Effect.flatMap(pageOf(given), (request) =>
    Effect.gen(function* () {
      const filter = { plane: given.plane, organisation: given.org, publicId: Option.some(given.publicId) }
      const page = yield* (yield* OperatorQueries).recipients(filter, request)
      if (page.items.length === 0)
        return yield* notFound(
          `${given.publicId} was never registered here, or the registration ended long ago`,
          "an actor is registered at a login or by a subscription"
        )
      yield* printPage(page, {
        json: given.json,
        toJson: toRecipientJson,
        nouns: "registrations",
        table: (items) =>
          printTable(
            [
              { title: "ORGANISATION", of: (item) => item.organisation },
              { title: "PLANE", drop: 2, of: (item) => item.plane },
              {
                title: "STATE",
                of: (item) => (item.active ? "active" : "inactive"),
                colour: (item) => (item.active ? "green" : "yellow")
              },
              { title: "CHANGED", drop: 1, of: (item) => formatTime(item.changedAt) },
              { title: "SUBSCRIPTION", of: (item) => Option.getOrElse(item.subscriptionId, () => "") }
            ],
            items
          )
      })
    }).pipe(onDatabaseToRead)
  )
).pipe(Command.withDescription("Shows where an actor is registered as a recipient of tings"))

export const recipients = Command.make("recipients").pipe(
  Command.withDescription("Recipients of tings: show"),
  Command.withSubcommands([show])
)
