/**
 * The port through which calls to other systems are sent: plain functions, because one call is one asynchronous operation.
 * Production sends over HTTP (`UndiciTransport`), tests of use cases to a simulator in memory.
 */
import * as Context from "effect/Context"

export interface OutgoingRequest {
  /** Scheme, host and port. */
  readonly origin: string
  /** The path with its query. */
  readonly path: string
  readonly method: "GET" | "POST" | "PATCH"
  /** Names in lower case. Holds credentials. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array | undefined
  readonly maxResponseBytes: number
  /** Monotonic milliseconds (`MonotonicTime`) until which the last byte of the response must have arrived. */
  readonly deadlineAt: number
}

/** How a request ended. `code` is the system's error code, such as `ECONNRESET`. */
export type Delivery =
  | {
      readonly _tag: "Answered"
      readonly status: number
      /** Names in lower case. */
      readonly headers: Readonly<Record<string, string>>
      readonly body: Uint8Array
    }
  /** No byte of the request can have arrived: no name, no route, no listener, no trusted certificate. */
  | { readonly _tag: "NotSent"; readonly code: string }
  /** The connection was lost before the response, or within it. */
  | { readonly _tag: "Lost"; readonly code: string; readonly withinResponse: boolean }
  | { readonly _tag: "TooLarge" }
  | { readonly _tag: "Late" }

/**
 * Sends a request once and follows no redirect. It calls `settle` once, possibly before it returns, unless the returned
 * function is called before, which ends the request.
 */
export type Send = (request: OutgoingRequest, settle: (delivery: Delivery) => void) => () => void

export class UpstreamTransport extends Context.Tag("music/UpstreamTransport")<
  UpstreamTransport,
  { readonly send: Send }
>() {}
