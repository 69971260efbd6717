import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import type { StoreService } from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { makeDeliveries } from "./Deliveries.ts"
import { makeDestinations } from "./Destinations.ts"
import { makeKnownPlanes } from "./KnownPlanes.ts"
import { makeLoginOutcomes } from "./LoginOutcomes.ts"
import { checkSchema } from "../migrations/Migrations.ts"
import { makeRecipients } from "./Recipients.ts"
import { makeReports } from "./Reports.ts"
import { makeRetention } from "./Retention.ts"
import { makeTelemetrySpool } from "./TelemetrySpool.ts"
import { makeWebhookInbox } from "./WebhookInbox.ts"
import { makeWriteProbe } from "../WriteProbe.ts"

/** Keeps one sign however often it is given. Taking it uses it up, so each has one consumer. */
const makeWakeup = Effect.map(Queue.sliding<void>(1), (signs) => ({
  give: Effect.asVoid(Queue.offer(signs, undefined)),
  unsafeGive: () => void signs.unsafeOffer(undefined),
  wait: Queue.take(signs)
}))

/** The whole store over a database whose migrations have run; the same for every dialect. */
export const makeStore = (given: Database): Effect.Effect<StoreService, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { database, writable } = makeWriteProbe(given)
    const wakeups = { deliveries: yield* makeWakeup, spool: yield* makeWakeup }
    /** After a commit: here, and at once in the other processes; a sign that is lost costs them a wait until their next look. */
    const everywhere = Effect.zipRight(
      wakeups.deliveries.give,
      Effect.ignore(database.announce("deliveries"))
    )
    yield* database.announced((work) => wakeups[work].unsafeGive())
    return {
      recipients: makeRecipients(database),
      loginOutcomes: makeLoginOutcomes(database),
      reports: makeReports(database, wakeups.deliveries.give),
      webhooks: makeWebhookInbox(database),
      spool: yield* makeTelemetrySpool(database, wakeups.spool.give),
      planes: makeKnownPlanes(database),
      deliveries: makeDeliveries(database, everywhere),
      destinations: makeDestinations(database),
      retention: makeRetention(database),
      check: Effect.zipRight(checkSchema(database), writable),
      wakeups: { deliveries: wakeups.deliveries.wait, spool: wakeups.spool.wait }
    }
  })
