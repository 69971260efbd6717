/** The client for programs without Effect: promises that never reject, plain values, errors as data. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { PromiseClientOptions } from "./Options.ts"
import { newKey, onPageHide, plainStatus, start } from "./PromiseRuntime.ts"
import type {
  ClientTable,
  Health,
  IamDescriptor,
  LoginInfo,
  Me,
  MusicError,
  MusicErrorCode,
  Readiness,
  Report,
  ReportRequest,
  Result,
  SessionInfo,
  Status,
  Subscription,
  TelemetryEvent,
  TelemetryStats,
  Ting,
  TingRequest,
  Version
} from "./Types.ts"

export interface RequestOptions {
  /** Organisation of this call; only signed calls use it. */
  readonly org?: string
  /** Instead of the client's deadline, milliseconds. */
  readonly deadlineMilliseconds?: number
  /** Takes the call back. A session or a ting that is under way may still come to be. */
  readonly signal?: AbortSignal
}

export interface MusicClient {
  /**
   * Exchanges a short-lived token for a session and keeps it. The same token twice is one login, also after a crash
   * and within 10 minutes. `idempotencyKey` continues a login of a test public id, which names no login by itself.
   */
  readonly login: (
    slt: string,
    options?: RequestOptions & { readonly idempotencyKey?: string }
  ) => Promise<Result<LoginInfo>>
  /**
   * Ends the session there, then here. When the service cannot be told, the session is kept; with `forget` it goes here
   * all the same, and lives on there until it expires.
   */
  readonly logout: (options?: RequestOptions & { readonly forget?: boolean }) => Promise<Result<void>>
  /** Who is signed in as far as the store knows, or null; asks nobody. */
  readonly session: () => Promise<Result<SessionInfo | null>>
  /** Asks the service whether the session lives, and tells "logged out" from "cannot tell now". */
  readonly status: (options?: RequestOptions) => Promise<Status>
  readonly me: (options?: RequestOptions) => Promise<Result<Me>>
  /** Registers the actor as a recipient; registering twice is registering once. */
  readonly subscribe: (options?: RequestOptions) => Promise<Result<Subscription>>
  /** Sends a ting once, however often it is tried with the same key and content (remembered for 14 days). */
  readonly ting: (ting: TingRequest, options?: RequestOptions) => Promise<Result<Ting>>
  /** Signed when somebody is signed in, unless `anonymous`. A kept `idempotencyKey` makes a retry after a crash harmless. */
  readonly report: (
    report: ReportRequest,
    options?: RequestOptions & { readonly idempotencyKey?: string; readonly anonymous?: boolean }
  ) => Promise<Result<Report>>
  readonly iam: (options?: RequestOptions) => Promise<Result<IamDescriptor>>
  readonly version: (options?: RequestOptions) => Promise<Result<Version>>
  readonly healthz: (options?: RequestOptions) => Promise<Result<Health>>
  /** One attempt: not being ready is an answer. */
  readonly readyz: (options?: RequestOptions) => Promise<Result<Readiness>>
  readonly telemetry: {
    /** Queues an event; never waits. `queued` is false when telemetry is off. */
    readonly record: (
      table: ClientTable,
      event: TelemetryEvent
    ) => Result<{ readonly id: string; readonly queued: boolean }>
    /** Sends what is queued now instead of soon. */
    readonly flush: (options?: RequestOptions) => Promise<Result<TelemetryStats>>
    readonly stats: () => TelemetryStats
  }
  /** Sends the last events, for at most 5 s, and lets go of the page. Calls still work; events are no longer queued. */
  readonly close: () => Promise<TelemetryStats>
}

/** A key for a report, to be kept before it is sent. */
export const newIdempotencyKey = (): string => newKey()

/** Makes a client. It asks nobody and never throws: what is wrong with the options, every call says. */
export const createMusicClient = (options: PromiseClientOptions): MusicClient => {
  const { eventually, immediately, service } = start(options)
  const letGo = onPageHide(() => void eventually(service.telemetry.farewell, undefined))
  const nothingKnown: TelemetryStats = { queued: 0, delivered: 0, dropped: 0 }
  return {
    login: (slt, call) => eventually(service.login(slt, call), call),
    logout: (call) => eventually(service.logout(call), call),
    session: () => eventually(Effect.map(service.session, Option.getOrNull), undefined),
    status: async (call) => {
      const answer = await eventually(service.status(call), call)
      return answer.ok ? plainStatus(answer.value) : { state: "unknown", error: answer.error }
    },
    me: (call) => eventually(service.me(call), call),
    subscribe: (call) => eventually(service.subscribe(call), call),
    ting: (ting, call) => eventually(service.ting(ting, call), call),
    report: (report, call) => eventually(service.report(report, call), call),
    iam: (call) => eventually(service.iam(call), call),
    version: (call) => eventually(service.version(call), call),
    healthz: (call) => eventually(service.healthz(call), call),
    readyz: (call) => eventually(service.readyz(call), call),
    telemetry: {
      record: (table, event) => immediately(service.telemetry.record(table, event)),
      flush: (call) => eventually(service.telemetry.flush(call), call),
      stats: () => {
        const answer = immediately(service.telemetry.stats)
        return answer.ok ? answer.value : nothingKnown
      }
    },
    close: async () => {
      letGo()
      const answer = await eventually(service.telemetry.close, undefined)
      return answer.ok ? answer.value : nothingKnown
    }
  }
}

/** Narrows an error to some of its codes. */
export const hasCode = <const Code extends MusicErrorCode>(
  error: MusicError,
  ...codes: ReadonlyArray<Code>
): error is Extract<MusicError, { readonly code: Code }> => codes.some((code) => code === error.code)
