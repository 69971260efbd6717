/** What a client reports to its program while it works: the one hook for logs, progress lines and changes of the session. */
import type { LoggedOutReason, MusicError, RateLimit, SessionInfo } from "./Types.ts"
import { ignore } from "./Values.ts"

interface RequestFacts {
  /** The method of the client, such as `me` or `refresh`; `request` for a raw call. */
  readonly call: string
  /** Names the request in the service's log, the same for all attempts of one call. */
  readonly requestId: string
  /** Counts from 1. */
  readonly attempt: number
}

/** One event, discriminated by `type`. Events hold no token, no key and no content. */
export type ClientEvent =
  | (RequestFacts & { readonly type: "request"; readonly method: string; readonly path: string })
  | (RequestFacts & {
      readonly type: "response"
      /** Null: no answer came. */
      readonly status: number | null
      readonly milliseconds: number
      readonly rateLimits: ReadonlyArray<RateLimit>
      /** Present when the attempt failed. */
      readonly error?: MusicError
    })
  /** Another attempt follows after the pause. */
  | (RequestFacts & {
      readonly type: "retry"
      readonly pauseMilliseconds: number
      readonly error: MusicError
    })
  /** `elsewhere`: by another tab or process. */
  | { readonly type: "logged_in"; readonly session: SessionInfo; readonly elsewhere?: true }
  | { readonly type: "refreshed"; readonly session: SessionInfo }
  /** `logout`: revoked on request. `forgotten`: cleared by `logout({ forget: true })`, and not revoked. `elsewhere`: by another tab or process. */
  | {
      readonly type: "logged_out"
      readonly reason: "logout" | "forgotten" | "elsewhere" | LoggedOutReason
      readonly requestId: string | null
    }
  /** An unreadable stored session was replaced or removed. */
  | { readonly type: "session_healed"; readonly path?: string }
  /** `refused`: by the service, see `error`. `closed`: not delivered before `close` ended. `full`: the queue had no room. */
  | {
      readonly type: "telemetry_dropped"
      readonly events: number
      readonly reason: "refused" | "closed" | "full"
      readonly error?: MusicError
    }
  /** The server supports no version below `minVersion`; this program has a lower one. Once for each client. */
  | { readonly type: "outdated"; readonly version: string; readonly minVersion: string }

/** What it returns is ignored. */
export type EventListener = (event: ClientEvent) => unknown

/** Reports an event. A listener that throws, rejects or changes the event never affects a call. */
export type ReportEvent = (event: ClientEvent) => void

export const eventReporter =
  (listener: EventListener | undefined | null): ReportEvent =>
  (event) => {
    if (typeof listener !== "function") return
    try {
      // A copy: the event shares members with the result of the call. Events are JSON.
      Promise.resolve(listener(JSON.parse(JSON.stringify(event)))).catch(ignore)
    } catch {
      // The listener's own fault.
    }
  }
