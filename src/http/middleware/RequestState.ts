import type { IncomingMessage } from "node:http"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { Span } from "effect/Tracer"
import type { FailureCode } from "../../schema/FailureTable.ts"
import type { ActorType } from "../../schema/Identity.ts"
import { type PlaneId, productionId } from "../../services/Plane.ts"
import type { RequestInfo } from "../../services/RequestContext.ts"
import type { Call, Route } from "./Routes.ts"

/** How a request ended; 499 when the client left first. */
export interface Ending {
  readonly status: number
  readonly code: FailureCode | undefined
  /** Nanoseconds of Effect's clock. */
  readonly endedAt: bigint
}

/**
 * One request and its answer, as the way back needs it: what the log line, the headers and the events tell. The few
 * mutable members are notes that later steps leave for it.
 */
export interface RequestState {
  readonly message: IncomingMessage
  readonly path: string
  readonly route: Route | undefined
  readonly call: Call | undefined
  readonly info: RequestInfo
  /** Nanoseconds of Effect's clock. */
  readonly startedAt: bigint
  /** A plane was selected, in whatever form: it has no part in production's records. */
  testing: boolean
  plane: PlaneId | "testing"
  /** Who asks, once IAM vouched for them. */
  actor: ActorType | "anonymous"
  /** The request's own span; none while nothing is traced. */
  span: Span | undefined
  /** The request was read and fits: what no longer fits from here on is our own fault. */
  decoded: boolean
  /** The rest of its body is not waited for: its connection can serve no other request. */
  unread: boolean
  /** RateLimit headers, once the limits were asked. */
  rate: Readonly<Record<string, string>>
}

/** The exchange of the request in hand; none outside the server. */
export class CurrentRequestState extends Context.Reference<CurrentRequestState>()("music/http/RequestState", {
  defaultValue: (): RequestState | undefined => undefined
}) {}

/** Leaves a note for the way back. */
export const noting = (note: (exchange: RequestState) => void): Effect.Effect<void> =>
  Effect.map(CurrentRequestState, (exchange) => {
    if (exchange !== undefined) note(exchange)
  })

export const planeNote = (testing: boolean): RequestState["plane"] => (testing ? "testing" : productionId)
