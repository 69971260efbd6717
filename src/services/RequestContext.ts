import * as Context from "effect/Context"

export type Source = "cli" | "daemon" | "web" | "unknown"

/** What is known of the request in hand. Work without a request (start-up, delivery) sees the default. */
export interface RequestInfo {
  readonly requestId: string
  readonly source: Source
  /** False when the caller opted out (`X-Music-Telemetry`, `Sec-GPC`, `DNT`): nothing about it is recorded, and IAM is told so. */
  readonly recording: boolean
  /** Monotonic milliseconds (`MonotonicTime`) after which no further attempt is made. */
  readonly deadlineAt: number
  /** Whom quotas count: the client's address, a /64 of IPv6; empty where no address is counted. */
  readonly network: string
}

export class RequestContext extends Context.Reference<RequestContext>()("music/RequestContext", {
  defaultValue: (): RequestInfo => ({
    requestId: "background",
    source: "unknown",
    recording: false,
    deadlineAt: Number.POSITIVE_INFINITY,
    network: ""
  })
}) {}
