/** The store: one repository for each noun, in `store/`. No credential is ever stored, only digests that rank calls to IAM. Times are milliseconds since the epoch. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type { Database } from "./store/Database.ts"
import { makeDeliveries } from "./store/Deliveries.ts"
import { makeDestinations } from "./store/Destinations.ts"
import { makeBackups, makeIamCalls, makeKnownPlanes, makeLoginOutcomes } from "./store/Logins.ts"
import { makeRecipients, makeSessionDigests, makeWebhookInbox } from "./store/People.ts"
import { makeReports } from "./store/Reports.ts"
import { makeRetention } from "./store/Retention.ts"
import type { Stored } from "./store/StoreUnavailable.ts"
import { makeTelemetrySpool } from "./store/TelemetrySpool.ts"

export * from "./store/Database.ts"
export * from "./store/Deliveries.ts"
export * from "./store/Destinations.ts"
export * from "./store/Logins.ts"
export * from "./store/People.ts"
export * from "./store/ReportRows.ts"
export * from "./store/Reports.ts"
export * from "./store/SpoolAdmission.ts"
export * from "./store/StoreUnavailable.ts"
export * from "./store/TelemetrySpool.ts"

/** Keeps one wake-up, however often it is sent. Waiting uses it up, so each has one consumer. */
const makeWakeup = Effect.map(Queue.sliding<void>(1), (queue) => ({
  wakeUp: () => void queue.unsafeOffer(undefined),
  wait: Queue.take(queue)
}))

/** The repositories over a database whose migrations have run; the same for both dialects. */
export const makeRepositories = (database: Database) =>
  Effect.gen(function* () {
    const deliveries = yield* makeWakeup
    const spool = yield* makeWakeup
    return {
      recipients: makeRecipients(database),
      loginOutcomes: makeLoginOutcomes(database),
      sessionDigests: makeSessionDigests(database),
      iamCalls: makeIamCalls(database),
      reports: makeReports(database, deliveries.wakeUp),
      webhooks: makeWebhookInbox(database),
      spool: yield* makeTelemetrySpool(database, spool.wakeUp),
      planes: makeKnownPlanes(database),
      deliveries: makeDeliveries(database, deliveries.wakeUp),
      destinations: makeDestinations(database),
      retention: makeRetention(database),
      backups: makeBackups(database),
      usage: database.usage,
      /**
       * Each completes once this process has committed work of the kind since it last completed, so that a worker need not wait for
       * its next poll. Each has one consumer.
       */
      wakeups: { deliveries: deliveries.wait, spool: spool.wait }
    }
  })

export interface StoreService extends Effect.Effect.Success<ReturnType<typeof makeRepositories>> {
  /** Makes a small write. Succeeds when the database takes it and has all migrations of this version. Never after a corruption. */
  readonly check: Stored<void>
  /** Whether a write or a check failed while no other write succeeded, and no check has succeeded since; for ever after a corruption. */
  readonly isFailing: () => boolean
}

export class Store extends Context.Tag("music/Store")<Store, StoreService>() {}
