/** The wiring of the HTTP server: the way of a request, its bounds, the transport. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Descriptors } from "../services/Descriptors.ts"
import type { Drain } from "../services/Drain.ts"
import type { Notifications } from "../services/Notifications.ts"
import type { Planes } from "../services/Planes.ts"
import type { Readiness } from "../services/Readiness.ts"
import type { Reports } from "../services/Reports.ts"
import type { Sessions } from "../services/Sessions.ts"
import type { Settings } from "../services/Settings.ts"
import type { Telemetry } from "../services/Telemetry.ts"
import type { Webhooks } from "../services/Webhooks.ts"
import { type ArrivingBodyLimits, ArrivingBodies } from "./body/ArrivingBodies.ts"
import { Admission } from "./middleware/Admission.ts"
import { makePipeline } from "./middleware/Pipeline.ts"
import { type Policies, RateLimits } from "./middleware/RateLimits.ts"
import type { startEventLoopDelay } from "./transport/EventLoopDelay.ts"
import { RequestQueue } from "./transport/RequestQueue.ts"
import type { ConnectionLimits } from "./transport/Connections.ts"
import { type ListenFailed, Listening, serveNode } from "./transport/NodeServer.ts"

export { ListenFailed, Listening } from "./transport/NodeServer.ts"

/** Bounds that tests lower. */
export interface Bounds {
  /** Requests in flight. */
  readonly inFlight?: number
  /** How late requests are served, which is the machine's time. A simulation has its own. */
  readonly startDelay?: typeof startEventLoopDelay
  /** Requests that wait for a turn of the event loop. */
  readonly waiting?: number
  readonly policies?: Policies
  /** Bodies that arrive at once. */
  readonly bodies?: ArrivingBodyLimits
  readonly connections?: ConnectionLimits
}

/** What the way of a request shares between requests: its queue, its limits and its bounds. */
export const requestLimits = (
  bounds: Bounds
): Layer.Layer<Admission | RateLimits | ArrivingBodies | RequestQueue, never, Settings | Drain> =>
  Layer.mergeAll(
    Admission.layer(bounds.inFlight, bounds.startDelay),
    RateLimits.layer(bounds.policies),
    ArrivingBodies.layer(bounds.bodies)
  ).pipe(Layer.provideMerge(RequestQueue.layer(bounds.waiting)))

/** The server with other bounds than the default ones. */
export const httpServerWith = (
  bounds: Bounds
): Layer.Layer<
  Listening,
  ListenFailed,
  | Settings
  | Drain
  | Planes
  | Sessions
  | Notifications
  | Reports
  | Telemetry
  | Webhooks
  | Descriptors
  | Readiness
> =>
  Layer.scoped(
    Listening,
    Effect.flatMap(makePipeline, (listener) => serveNode(listener, bounds.connections))
  ).pipe(Layer.provide(requestLimits(bounds)))

/**
 * Listens on `Settings.bind` until its scope closes. Then readiness fails, requests in flight are finished, new ones on
 * open connections are refused with `shutting_down`, and at the end of the grace period every connection is cut.
 */
export const HttpServerLive = httpServerWith({})
