/** The server as one layer: ports by their real layers, use cases over them, the HTTP server on top. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { HttpServerLive } from "./http/Server.ts"
import { DeliveryLive } from "./layers/delivery/Delivery.ts"
import { HttpIam } from "./layers/iam/HttpIam.ts"
import { LoggingLive } from "./layers/Logging.ts"
import { SqliteStore } from "./layers/store/SqliteStore.ts"
import { TablesFromSettings } from "./layers/tables/Tables.ts"
import { HttpTing } from "./layers/ting/HttpTing.ts"
import { TrackerFromSettings } from "./layers/tracker/Tracker.ts"
import { UpstreamClient } from "./layers/upstream/Connection.ts"
import { Descriptors } from "./services/Descriptors.ts"
import { Drain } from "./services/Drain.ts"
import { Idempotency } from "./services/Idempotency.ts"
import { Notifications } from "./services/Notifications.ts"
import { OwnEvents } from "./services/OwnEvents.ts"
import { Planes } from "./services/Planes.ts"
import { Registration } from "./services/Registration.ts"
import { Reports } from "./services/Reports.ts"
import { Sessions } from "./services/Sessions.ts"
import { Settings } from "./services/Settings.ts"
import { Telemetry } from "./services/Telemetry.ts"
import { Webhooks } from "./services/Webhooks.ts"

export { Listening } from "./http/Server.ts"

/** What tests of crashes and of several processes replace or wrap. */
export const parts = {
  store: SqliteStore,
  tables: TablesFromSettings,
  tracker: TrackerFromSettings,
  delivery: DeliveryLive
}

const portsOf = (given: typeof parts) =>
  Layer.mergeAll(HttpIam, HttpTing, given.store, given.tables, given.tracker, Drain.Default).pipe(
    Layer.provide(UpstreamClient)
  )

const useCasesOver = (delivery: typeof DeliveryLive) =>
  Layer.mergeAll(
    Planes.Default,
    Notifications.Default,
    Reports.Default,
    Telemetry.Default,
    Webhooks.Default,
    Descriptors.Default
  ).pipe(
    Layer.provideMerge(Sessions.Default),
    Layer.provideMerge(Registration.Default),
    Layer.provideMerge(Layer.merge(Idempotency.Default, OwnEvents.Default)),
    Layer.provideMerge(delivery)
  )

/** A setting that does nothing yet must not look as if it did. */
const Notices = Layer.effectDiscard(
  Effect.flatMap(Settings, ({ adminBind }) =>
    Option.isSome(adminBind)
      ? Effect.logWarning("MUSIC_ADMIN_BIND is set, but this release serves no metrics")
      : Effect.void
  )
)

/** Everything that serves and delivers, of the given parts. */
export const backendOf = (given: typeof parts) =>
  HttpServerLive.pipe(
    Layer.provideMerge(Notices),
    Layer.provide(useCasesOver(given.delivery)),
    Layer.provide(portsOf(given)),
    Layer.provide(LoggingLive)
  )

/** The backend; launching it runs it until it is interrupted. */
export const Backend = backendOf(parts)
