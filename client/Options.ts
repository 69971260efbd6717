import type { EventListener } from "./Events.ts"
import type { SessionLock, SessionStore } from "./stores/SessionStore.ts"
import type { Source } from "./Types.ts"

/** Options of the promise client and the Effect client. */
export interface MusicClientOptions {
  /** Address of the service, `https://…`; a path in front of `/api` may follow the host. */
  readonly baseUrl: string
  /** Sent as `X-Music-Source`. */
  readonly source: Source
  /** Version of the program, `1.2.3`; the service compares it with the oldest that it supports. Default: this package's. */
  readonly version?: string | undefined
  /** False: every call sends `X-Music-Telemetry: off`, and no event is sent. Events are recorded by `createTelemetry`. */
  readonly telemetry: boolean
  /**
   * Test application secret of one testing environment; absent or null: production. Any other value that is no such
   * secret (an empty text, an unset variable) makes every call fail, because a test must never run in production.
   */
  readonly testingKey?: string | null
  /** Where the session is kept; default: in memory. */
  readonly sessionStore?: SessionStore | undefined
  /** Instead of the store's own lock. */
  readonly lock?: SessionLock | undefined
  /** Organisation of signed calls; default: the session's. */
  readonly org?: string | undefined
  /** Deadline of one call with its retries, milliseconds; default 30,000. */
  readonly deadlineMilliseconds?: number | undefined
  /**
   * Time limit of one attempt, milliseconds; default 28,000: longer than the service's own deadline (25 s), so that a slow
   * call ends with the service's reason. Without it, the first attempt of a read or a refresh has 10,000.
   */
  readonly attemptMilliseconds?: number | undefined
  /** Called with every request, retry, change of the session and dropped event; see `ClientEvent`. */
  readonly onEvent?: EventListener | undefined
  /**
   * Called before each call with a request; the headers that it returns are sent with it. Those that the client sets itself win, such as
   * `Authorization`, `X-Org-ID`, `Idempotency-Key` and `X-Testing-Environment-Key`.
   */
  readonly onRequest?: RequestHook | undefined
}

/** `call` is the method of the client; `url` begins with `baseUrl`. */
export type RequestHook = (request: {
  readonly call: string
  readonly method: string
  readonly url: string
}) =>
  | Readonly<Record<string, string>>
  | undefined
  | null
  | Promise<Readonly<Record<string, string>> | undefined | null>

export const deadlineMillisecondsOf = (options: MusicClientOptions): number =>
  options.deadlineMilliseconds ?? 30_000

export const attemptMillisecondsOf = (options: MusicClientOptions): number =>
  options.attemptMilliseconds ?? 28_000

/** Options of one call. */
export interface CallOptions {
  /** Aborts the call. A login or a ting that is under way may still take effect. */
  readonly signal?: AbortSignal | undefined
  /** Organisation of this call; only signed calls use it. */
  readonly org?: string | undefined
  /** Instead of the client's deadline, milliseconds. */
  readonly deadlineMilliseconds?: number | undefined
}

export interface LoginOptions extends CallOptions {
  /** Continues a login that began with this key; default: a key derived from the short-lived token. */
  readonly idempotencyKey?: string | undefined
}

export interface LogoutOptions extends CallOptions {
  /** Clear the stored session first and at once; then revoke it with one attempt of at most 2 s. */
  readonly forget?: boolean | undefined
}

export interface ReportOptions extends CallOptions {
  /** Key of the report. A caller that keeps it can retry after a crash without a duplicate. Default: random for this call. */
  readonly idempotencyKey?: string | undefined
  /** Send the report without the session. */
  readonly anonymous?: boolean | undefined
}

/** Source of times; default: the system clock. */
export interface ClientClock {
  /** Milliseconds since the epoch; may be wrong or be stepped. */
  readonly now: () => number
  /** Milliseconds from any start; never decreases. */
  readonly monotonic: () => number
}

export interface PromiseClientOptions extends MusicClientOptions {
  /** Instead of the global one. */
  readonly fetch?:
    | ((url: string, init?: Parameters<typeof globalThis.fetch>[1]) => ReturnType<typeof globalThis.fetch>)
    | undefined
  /** Instead of the system's clock. */
  readonly clock?: ClientClock | undefined
  /** From 0 up to 1, for the jitter of pauses; default `Math.random`. */
  readonly random?: (() => number) | undefined
}
