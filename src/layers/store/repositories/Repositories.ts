import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import type { StoreService } from "../../../services/Store.ts"
import type { Database } from "../Database.ts"
import { makeDeliveries } from "./Deliveries.ts"
import { makeDestinations } from "./Destinations.ts"
import { makeBackups, makeIamCalls, makeKnownPlanes, makeLoginOutcomes } from "./Logins.ts"
import { makeRecipients, makeSessionDigests, makeWebhookInbox } from "./People.ts"
import { makeReports } from "./Reports.ts"
import { makeRetention } from "./Retention.ts"
import { makeTelemetrySpool } from "./TelemetrySpool.ts"
import { makeStoreHealth } from "../StoreHealth.ts"

/** Keeps one wake-up, however often it is sent. Waiting uses it up, so each has one consumer. */
const makeWakeup = Effect.map(Queue.sliding<void>(1), (queue) => ({
  wakeUp: () => void queue.unsafeOffer(undefined),
  wait: Queue.take(queue)
}))

/** The store over a database whose migrations have run; the same for both dialects. */
export const makeStore = (given: Database): Effect.Effect<StoreService, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { check, database, isFailing } = makeStoreHealth(given)
    const wakeups = { deliveries: yield* makeWakeup, spool: yield* makeWakeup }
    return {
      recipients: makeRecipients(database),
      loginOutcomes: makeLoginOutcomes(database),
      sessionDigests: makeSessionDigests(database),
      iamCalls: makeIamCalls(database),
      reports: makeReports(database, wakeups.deliveries.wakeUp),
      webhooks: makeWebhookInbox(database),
      spool: yield* makeTelemetrySpool(database, wakeups.spool.wakeUp),
      planes: makeKnownPlanes(database),
      deliveries: makeDeliveries(database, wakeups.deliveries.wakeUp),
      destinations: makeDestinations(database),
      retention: makeRetention(database),
      backups: makeBackups(database),
      check,
      isFailing,
      usage: database.usage,
      wakeups: { deliveries: wakeups.deliveries.wait, spool: wakeups.spool.wait }
    }
  })
