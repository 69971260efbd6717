import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import { productionId } from "../../services/Plane.ts"
import { OperatorQueries } from "../../services/OperatorQueries.ts"
import type { InboxEvent } from "../../services/Store.ts"
import { onDatabaseToRead } from "../DatabaseAccess.ts"
import { json, pageOf, paging, plane, printPage, since, sinceOf } from "../Flags.ts"
import { printTable } from "../Screen.ts"
import { toWebhookJson } from "../JsonOutput.ts"
import { formatTime } from "../Text.ts"

const filters = {
  type: Options.text("type").pipe(
    Options.withPseudoName("name"),
    Options.withDescription("event type, such as session.logout.v1"),
    Options.optional
  ),
  plane,
  since
}

const list = Command.make("list", { ...filters, ...paging, json }, (given) =>
  Effect.flatMap(Effect.all([sinceOf(given.since), pageOf(given)]), ([from, request]) =>
    Effect.gen(function* () {
      const filter = { eventType: given.type, plane: given.plane, since: from }
      const page = yield* (yield* OperatorQueries).webhooks(filter, request)
      yield* printPage(page, {
        json: given.json,
        toJson: toWebhookJson,
        nouns: "webhooks",
        table: (items) =>
          printTable(
            [
              { title: "RECEIVED", of: (event) => formatTime(event.receivedAt) },
              { title: "EVENT", drop: 1, of: (event) => event.eventId },
              ...(items.some((event) => event.plane !== productionId)
                ? [{ title: "PLANE", drop: 2, of: (event: InboxEvent) => event.plane }]
                : []),
              { title: "TYPE", of: (event) => event.eventType },
              {
                title: "ABOUT",
                of: (event) =>
                  `${event.aggregateType} ${event.aggregateId} version ${event.aggregateVersion}`,
                elastic: true
              }
            ],
            items
          )
      })
    }).pipe(onDatabaseToRead)
  )
).pipe(Command.withDescription("Lists the webhooks that were received, newest first"))

export const webhooks = Command.make("webhooks").pipe(
  Command.withDescription("IAM's webhooks: list"),
  Command.withSubcommands([list])
)
