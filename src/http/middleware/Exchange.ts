/** A request, what is known of its call, and what the checks and the use case establish about it. */
import { randomUUID } from "node:crypto"
import type { IncomingMessage } from "node:http"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { ActorType, Credential } from "../../schema/Identity.ts"
import type { PlaneId } from "../../services/Plane.ts"
import type { Failure, FailureOf, QuotaReading } from "../../schema/Failure.ts"
import type { RequestInfo } from "../../services/RequestContext.ts"
import type { Traits } from "../api/Endpoint.ts"

/** Properties of a call that the server needs before it runs. */
export interface Call extends Context.Tag.Service<typeof Traits> {
  /** The first problem of a body by the contract. */
  readonly findProblem?: (body: unknown) => Failure<"invalid_input"> | undefined
}

export interface Route {
  /** The Allow header: every method that the path takes. */
  readonly allow: string
  readonly calls: ReadonlyMap<string, Call>
}

/** What a body can be refused for. */
export type BodyFailure = FailureOf<
  "invalid_input" | "request_timeout" | "payload_too_large" | "unsupported_media_type" | "overloaded"
>

/** The use case reads the part that is `RequestInfo`; the log line, the span and the headers of the answer the rest. */
export interface Exchange extends RequestInfo {
  readonly message: IncomingMessage
  /** Without query and authority. */
  readonly path: string
  readonly route: Route | undefined
  readonly call: Call | undefined
  /** Reads the exact bytes of the body. */
  readonly body: Effect.Effect<Uint8Array, BodyFailure>
  /** Of the client, when it sends a well-formed one. */
  readonly clientVersion: string | undefined
  /** Nanoseconds of Effect's clock. */
  readonly startedAt: bigint
  /**
   * `testing` for a request with `X-Testing-Environment-Key` in whatever form, until the plane is resolved; `unverified` for a delivery
   * whose signature is not verified.
   */
  plane: PlaneId | "testing" | "unverified"
  /** Type of the caller, once IAM has vouched for them. */
  actor: ActorType | "anonymous"
  /** As sent, when its form is right. */
  credential: Option.Option<Credential>
  /** The quotas in which the request counts; empty until the limits were checked. */
  quotas: ReadonlyArray<QuotaReading>
  /** Runs to its end also when its client disconnects: it may commit something. */
  committing: boolean
  /** The connection ends with the answer: what is behind the request is none. */
  closing: boolean
  /** What the answer says, when it is an error. */
  failure: Failure | undefined
}

export const newRequestId = (): string => `req_${randomUUID().replaceAll("-", "")}`

/** How often a header was sent: Node keeps the first of some, and joins others. */
export const countHeader = ({ rawHeaders }: IncomingMessage, name: string): number =>
  rawHeaders.filter((raw, at) => at % 2 === 0 && raw.toLowerCase() === name).length

/** The exchange of the current request. A reference, because a middleware of the whole API cannot declare what it provides. */
export class CurrentExchange extends Context.Reference<CurrentExchange>()("music/http/CurrentExchange", {
  // Outside a request there is none.
  defaultValue: () => Option.getOrThrow(Option.none<Exchange>())
}) {}
