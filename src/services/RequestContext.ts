import * as Context from "effect/Context"

export type Source = "cli" | "daemon" | "web" | "unknown"

/** Facts about the current request. Work without a request (start-up, delivery) gets the default. */
export interface RequestInfo {
  readonly requestId: string
  readonly source: Source
  /** The client's address, a /64 of IPv6, by which quotas count. Never sent anywhere, stored only as a keyed digest of its network, and logged only with `MUSIC_LOG_CLIENT_ADDRESS`. */
  readonly clientNetwork: string
  /** False when the caller opted out (`X-Music-Telemetry`, `Sec-GPC`, `DNT`): none of its events is stored, and the opt-out is passed to IAM. */
  readonly recording: boolean
  /** Monotonic milliseconds (`MonotonicTime`) after which no upstream attempt begins. */
  readonly deadlineAt: number
}

export class RequestContext extends Context.Reference<RequestContext>()("music/RequestContext", {
  defaultValue: (): RequestInfo => ({
    requestId: "background",
    source: "unknown",
    clientNetwork: "",
    recording: true,
    deadlineAt: Number.POSITIVE_INFINITY
  })
}) {}
