import * as Context from "effect/Context"

export type Source = "cli" | "daemon" | "web" | "unknown"

/** What is known of the request in hand. Work without a request (start-up, delivery) sees the default. */
export interface RequestInfo {
  readonly requestId: string
  readonly source: Source
  /** The client's address, a /64 of IPv6: what quotas count by. Never stored, logged or sent anywhere. */
  readonly clientNetwork: string
  /** False when the caller opted out (`X-Music-Telemetry`, `Sec-GPC`, `DNT`): nothing about it is recorded, and IAM is told so. */
  readonly recording: boolean
  /** Monotonic milliseconds (`MonotonicTime`) after which no further attempt is made. */
  readonly deadlineAt: number
}

export class RequestContext extends Context.Reference<RequestContext>()("music/RequestContext", {
  defaultValue: (): RequestInfo => ({
    requestId: "background",
    source: "unknown",
    clientNetwork: "",
    recording: false,
    deadlineAt: Number.POSITIVE_INFINITY
  })
}) {}
