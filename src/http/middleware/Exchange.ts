import type { IncomingMessage, ServerResponse } from "node:http"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { FailureCode } from "../../schema/FailureTable.ts"
import type { ActorType } from "../../schema/Identity.ts"
import { type PlaneId, productionId } from "../../services/Plane.ts"
import type { RequestInfo } from "../../services/RequestContext.ts"
import type { Credential } from "../../schema/Identity.ts"
import type { BodyFailure } from "../body/RequestBody.ts"
import type { Call, Route } from "./Routes.ts"

/** What is known of a request when its head has arrived. */
interface Head {
  readonly message: IncomingMessage
  readonly response: ServerResponse
  /** Without query and authority. */
  readonly path: string
  readonly route: Route | undefined
  readonly call: Call | undefined
  readonly info: RequestInfo
  /** Reads the exact bytes of the body. */
  readonly body: Effect.Effect<Uint8Array, BodyFailure>
  /** Of the client, when it sends a well-formed one. */
  readonly clientVersion: string | undefined
  /** Nanoseconds of Effect's clock. */
  readonly startedAt: bigint
}

/** A request and what the checks and the use case establish about it: the answer's headers, the log line and the span read it. */
export interface Exchange extends Head {
  /**
   * `testing` for a request that selects a testing plane in whatever form, until the plane is resolved; `unverified` for a delivery
   * whose signature is not verified.
   */
  plane: PlaneId | "testing" | "unverified"
  /** Type of the caller, once IAM has vouched for them. */
  actor: ActorType | "anonymous"
  /** As sent, when its form is right. */
  credential: Option.Option<Credential>
  /** The `RateLimit` headers; empty until the limits were checked. */
  rateLimitHeaders: Readonly<Record<string, string>>
  /** Name of the quota that refused the request. */
  exceededQuota: string | undefined
  /** The handler has begun: what does not fit a schema from now on is our own success. */
  decoded: boolean
  /** Runs to its end also when its client disconnects: it may commit something. */
  committing: boolean
}

/** The exchange before any check. `testing`: whether the headers select a testing plane. */
export const makeExchange = (head: Head, testing: boolean): Exchange => ({
  ...head,
  plane: testing ? "testing" : productionId,
  actor: "anonymous",
  credential: Option.none(),
  rateLimitHeaders: {},
  exceededQuota: undefined,
  decoded: false,
  committing: false
})

/** The exchange of the current request. A reference, because a middleware of the whole API cannot declare what it provides. */
export class CurrentExchange extends Context.Reference<CurrentExchange>()("music/http/CurrentExchange", {
  // Outside a request there is none.
  defaultValue: () => Option.getOrThrow(Option.none<Exchange>())
}) {}

/** How a request ended; status 499 when the client left first. */
export interface Ending {
  readonly status: number
  readonly code: FailureCode | undefined
  /** Nanoseconds of Effect's clock. */
  readonly endedAt: bigint
}
