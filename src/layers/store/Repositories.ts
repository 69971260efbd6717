import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type { StoreService } from "../../services/Store.ts"
import type { Database } from "./Database.ts"
import { makeDeliveries } from "./Deliveries.ts"
import { makeKnownPlanes } from "./KnownPlanes.ts"
import { makeLoginOutcomes } from "./LoginOutcomes.ts"
import { checkSchema } from "./Migrations.ts"
import { makeRecipients } from "./Recipients.ts"
import { makeReports } from "./Reports.ts"
import { makeRetention } from "./Retention.ts"
import { makeSpool } from "./Spool.ts"
import { makeWebhooks } from "./Webhooks.ts"

/**
 * Keeps one sign however often it is given. Taking it uses it up, so each has one consumer; it reaches this process only,
 * others see the work at their next look.
 */
const makeWakeup = Effect.map(Queue.sliding<void>(1), (signs) => ({
  give: Effect.asVoid(Queue.offer(signs, undefined)),
  wait: Queue.take(signs)
}))

/** The whole store over a database whose migrations have run; the same for every dialect. */
export const makeStore = (database: Database): Effect.Effect<StoreService> =>
  Effect.gen(function* () {
    const deliveries = yield* makeWakeup
    const spool = yield* makeWakeup
    return {
      recipients: makeRecipients(database),
      loginOutcomes: makeLoginOutcomes(database),
      reports: makeReports(database, deliveries.give),
      webhooks: makeWebhooks(database),
      spool: makeSpool(database, spool.give),
      planes: makeKnownPlanes(database),
      deliveries: makeDeliveries(database),
      retention: makeRetention(database),
      check: checkSchema(database),
      wakeups: { deliveries: deliveries.wait, spool: spool.wait }
    }
  })
