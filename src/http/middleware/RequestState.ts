import type { IncomingMessage } from "node:http"
import type { FailureCode } from "../../schema/FailureTable.ts"
import type { ActorType } from "../../schema/Identity.ts"
import { type PlaneId, productionId } from "../../services/Plane.ts"
import type { RequestInfo } from "../../services/RequestContext.ts"
import type { Call, Route } from "./Routes.ts"

/** What is known of a request when its head has arrived. */
export interface RequestFacts {
  readonly message: IncomingMessage
  /** Without query and authority. */
  readonly path: string
  readonly route: Route | undefined
  readonly call: Call | undefined
  readonly info: RequestInfo
  /** Of the client, when it sends a well-formed one. */
  readonly clientVersion: string | undefined
  /** Nanoseconds of Effect's clock. */
  readonly startedAt: bigint
}

/**
 * What the checks and the use case establish about a request. `Pipeline` and `Interpreter` write it; the headers of the
 * response, the log line, the span and the event read it.
 */
export interface RequestFindings {
  /**
   * `testing` for a request that selects a testing plane in whatever form, until the plane is resolved; `unverified` for a delivery
   * whose signature is not verified.
   */
  plane: PlaneId | "testing" | "unverified"
  /** Type of the caller, once IAM has vouched for them. */
  actor: ActorType | "anonymous"
  /** The `RateLimit` headers; empty until the limits were checked. */
  rateLimitHeaders: Readonly<Record<string, string>>
  /** Name of the quota that refused the request. */
  exceededQuota: string | undefined
  /** The queue of requests has no place for it; `crowded`: nor for a further one of its connection, which ends with the answer. */
  turnedAway: "full" | "crowded" | undefined
  /** Holds a place among the requests in flight. */
  holdsPlace: boolean
  /** Runs to its end also when its client disconnects: it may commit something. */
  committing: boolean
}

/** The findings before any check; `testing`: whether the headers select a testing plane. */
export const initialFindings = (testing: boolean): RequestFindings => ({
  plane: testing ? "testing" : productionId,
  actor: "anonymous",
  rateLimitHeaders: {},
  exceededQuota: undefined,
  turnedAway: undefined,
  holdsPlace: false,
  committing: false
})

/** How a request ended; status 499 when the client left first. */
export interface Ending {
  readonly status: number
  readonly code: FailureCode | undefined
  /** Nanoseconds of Effect's clock. */
  readonly endedAt: bigint
}
