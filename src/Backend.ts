/** The backend as one layer: the real ports, the use cases, and the HTTP server. */
import * as Layer from "effect/Layer"
import { HttpServerLive } from "./http/Server.ts"
import { DeliveryLive } from "./layers/delivery/Delivery.ts"
import { stopOnDrain } from "./layers/process/Process.ts"
import { HttpIam } from "./layers/iam/HttpIam.ts"
import { LoggingLive } from "./layers/observability/Logging.ts"
import { AdminLive } from "./layers/observability/Admin.ts"
import { TracingFromEnvironment } from "./layers/observability/Tracing.ts"
import { StoreFromSettings } from "./layers/store/StoreFromSettings.ts"
import { TablesFromSettings } from "./layers/tables/HttpTables.ts"
import { HttpTing } from "./layers/ting/HttpTing.ts"
import { TrackerFromSettings } from "./layers/tracker/GitHub.ts"
import { Connections } from "./layers/upstream/Connections.ts"
import { type DeliveryHealth, Readiness } from "./services/usecases/Readiness.ts"
import { Drain } from "./services/Drain.ts"
import { Idempotency } from "./services/combinators/Idempotency.ts"
import { Notifications } from "./services/usecases/Notifications.ts"
import { Reports } from "./services/usecases/Reports.ts"
import { Sessions } from "./services/usecases/Sessions.ts"
import { Telemetry } from "./services/usecases/Telemetry.ts"
import { UpstreamPlaces } from "./services/combinators/UpstreamPlaces.ts"
import { Webhooks } from "./services/usecases/Webhooks.ts"

export { Listening } from "./http/Server.ts"

/** The parts that tests replace or wrap: the ports, where spans go, the connections to the upstreams, background work, and the server. */
export const parts = {
  transport: Connections,
  store: StoreFromSettings,
  tracing: TracingFromEnvironment,
  tables: TablesFromSettings,
  tracker: TrackerFromSettings,
  delivery: DeliveryLive,
  server: HttpServerLive
}

type UpstreamsAndStore = Pick<typeof parts, "transport" | "store" | "tables" | "tracker">

const makePorts = (given: UpstreamsAndStore) =>
  Layer.mergeAll(HttpIam, HttpTing, given.tables, given.tracker).pipe(
    Layer.provideMerge(given.store),
    Layer.provideMerge(Drain.Default),
    Layer.provide(given.transport)
  )

const makeUseCases = <E, R>(delivery: Layer.Layer<DeliveryHealth, E, R>) =>
  Layer.mergeAll(Reports.Default, Telemetry.Default, Webhooks.Default, Readiness.Default).pipe(
    Layer.provideMerge(Sessions.Default),
    Layer.provideMerge(Notifications.Default),
    Layer.provideMerge(Layer.mergeAll(Idempotency.Default, UpstreamPlaces.Default, stopOnDrain(delivery)))
  )

/** The backend made of the given parts. Its server is any layer over the use cases. */
export const makeBackend = <S, SE, SR, E, R>(
  given: UpstreamsAndStore & {
    readonly tracing: Layer.Layer<never>
    readonly server: Layer.Layer<S, SE, SR>
    readonly delivery: Layer.Layer<DeliveryHealth, E, R>
  }
) =>
  given.server.pipe(
    Layer.provide(AdminLive),
    Layer.provide(makeUseCases(given.delivery)),
    Layer.provide(makePorts(given)),
    Layer.provide(given.tracing),
    Layer.provide(LoggingLive)
  )

/** The backend; launching it runs it until it is interrupted. */
export const Backend = makeBackend(parts)
