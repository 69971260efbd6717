/** The client for programs without Effect: promises that never reject, with errors as data. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { toThrown } from "./failures/ErrorGuards.ts"
import type {
  CallOptions,
  LoginOptions,
  LogoutOptions,
  PromiseClientOptions,
  ReportOptions
} from "./Options.ts"
import { onPageHide } from "./PageHide.ts"
import { startRuntime, toPlainStatus } from "./PromiseRuntime.ts"
import type {
  ClientTable,
  Health,
  IamDescriptor,
  LoginInfo,
  LogoutInfo,
  Me,
  RawAnswer,
  RawRequest,
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

/** Options of one call. */
export interface RequestOptions extends CallOptions {
  /** Aborts the call. A login or a ting that is under way may still take effect. */
  readonly signal?: AbortSignal | undefined
}

/** A client of the service. Every call resolves to a result; none rejects. */
export interface MusicClient {
  /**
   * Exchanges a short-lived token for a session and stores it. The same token twice is one login, also after a crash
   * within 10 minutes. `idempotencyKey` continues a login of a test public id, which has no key of its own.
   */
  readonly login: (slt: string, options?: LoginOptions & RequestOptions) => Promise<Result<LoginInfo>>
  /**
   * Revokes the session at the service, then clears it. When the service cannot be reached, the session is kept; with
   * `forget` it is cleared first and at once, and then revoked if the service answers within 2 s.
   */
  readonly logout: (options?: LogoutOptions & RequestOptions) => Promise<Result<LogoutInfo>>
  /** The stored session, or null; makes no call. */
  readonly session: () => Promise<Result<SessionInfo | null>>
  /** Asks the service whether the session is live; distinguishes `logged_out` from `unknown`. */
  readonly status: (options?: RequestOptions) => Promise<Status>
  /** The actor of the session, as the service sees it now. */
  readonly me: (options?: RequestOptions) => Promise<Result<Me>>
  /** Registers the actor as a recipient; idempotent. */
  readonly subscribe: (options?: RequestOptions) => Promise<Result<Subscription>>
  /** Sends a ting; the same key and content within 14 days is sent once. */
  readonly ting: (ting: TingRequest, options?: RequestOptions) => Promise<Result<Ting>>
  /** Signed when a session is stored, unless `anonymous`. A caller that keeps the `idempotencyKey` can retry after a crash without a duplicate. */
  readonly report: (
    report: ReportRequest,
    options?: ReportOptions & RequestOptions
  ) => Promise<Result<Report>>
  /** What the service is: its application, scopes and ting types. */
  readonly iam: (options?: RequestOptions) => Promise<Result<IamDescriptor>>
  /** The service's version, and the oldest version of a program that it supports. */
  readonly version: (options?: RequestOptions) => Promise<Result<Version>>
  /** Whether the service's process runs. */
  readonly healthz: (options?: RequestOptions) => Promise<Result<Health>>
  /** Whether the service can serve now. One attempt: `not_ready` is a result. */
  readonly readyz: (options?: RequestOptions) => Promise<Result<Readiness>>
  /** A call that this version does not know, with the session, the retries and the keys of the others. */
  readonly request: (
    method: string,
    path: string,
    options?: RawRequest & RequestOptions
  ) => Promise<Result<RawAnswer>>
  readonly telemetry: {
    /** Queues an event; never waits. `queued` is false when telemetry is off. */
    readonly record: (
      table: ClientTable,
      event: TelemetryEvent
    ) => Result<{ readonly id: string; readonly queued: boolean }>
    /** Sends the queue now. */
    readonly flush: (options?: RequestOptions) => Promise<Result<TelemetryStats>>
    readonly stats: () => TelemetryStats
  }
  /** Sends the last events, for at most 5 s, and removes the page listener. Calls still work; events are no longer queued. */
  readonly close: () => Promise<TelemetryStats>
}

/** Makes a client whose calls resolve to results. */
const makeClient = (options: PromiseClientOptions): MusicClient => {
  const { runAsync, runNow, service } = startRuntime(options)
  const letGo = onPageHide(() => void runAsync(service.telemetry.farewell, undefined))
  const nothingKnown: TelemetryStats = { queued: 0, delivered: 0, dropped: 0 }
  return {
    login: (slt, call) => runAsync(service.login(slt, call), call),
    logout: (call) => runAsync(service.logout(call), call),
    session: () => runAsync(Effect.map(service.session, Option.getOrNull), undefined),
    status: async (call) => {
      const answer = await runAsync(service.status(call), call)
      return answer.ok ? toPlainStatus(answer.value) : { state: "unknown", error: answer.error }
    },
    me: (call) => runAsync(service.me(call), call),
    subscribe: (call) => runAsync(service.subscribe(call), call),
    ting: (ting, call) => runAsync(service.ting(ting, call), call),
    report: (report, call) => runAsync(service.report(report, call), call),
    iam: (call) => runAsync(service.iam(call), call),
    version: (call) => runAsync(service.version(call), call),
    healthz: (call) => runAsync(service.healthz(call), call),
    readyz: (call) => runAsync(service.readyz(call), call),
    request: (method, path, call) => runAsync(service.request(method, path, call), call),
    telemetry: {
      record: (table, event) => runNow(service.telemetry.record(table, event)),
      flush: (call) => runAsync(service.telemetry.flush(call), call),
      stats: () => {
        const answer = runNow(service.telemetry.stats)
        return answer.ok ? answer.value : nothingKnown
      }
    },
    close: async () => {
      letGo()
      const answer = await runAsync(service.telemetry.close, undefined)
      return answer.ok ? answer.value : nothingKnown
    }
  }
}

/** The methods of a client, with values instead of results. They reject with a `MusicClientError`. */
type Throwing<Client> = {
  readonly [Name in keyof Client]: Client[Name] extends (
    ...parameters: infer Parameters
  ) => Promise<Result<infer A>>
    ? (...parameters: Parameters) => Promise<A>
    : Client[Name]
}

/** A client with `throwOnError`. */
export interface ThrowingMusicClient extends Omit<Throwing<MusicClient>, "telemetry"> {
  readonly telemetry: Throwing<MusicClient["telemetry"]>
}

const valueOf = <A>(result: Result<A>): A | Promise<A> =>
  result.ok ? result.value : Promise.reject(toThrown(result.error))

const toThrowing = (client: MusicClient): ThrowingMusicClient => {
  const { telemetry } = client
  return {
    ...client,
    login: (...given) => client.login(...given).then(valueOf),
    logout: (...given) => client.logout(...given).then(valueOf),
    session: () => client.session().then(valueOf),
    me: (...given) => client.me(...given).then(valueOf),
    subscribe: (...given) => client.subscribe(...given).then(valueOf),
    ting: (...given) => client.ting(...given).then(valueOf),
    report: (...given) => client.report(...given).then(valueOf),
    iam: (...given) => client.iam(...given).then(valueOf),
    version: (...given) => client.version(...given).then(valueOf),
    healthz: (...given) => client.healthz(...given).then(valueOf),
    readyz: (...given) => client.readyz(...given).then(valueOf),
    request: (...given) => client.request(...given).then(valueOf),
    telemetry: {
      ...telemetry,
      flush: (...given) => telemetry.flush(...given).then(valueOf)
    }
  }
}

/**
 * Makes a client. Makes no call and never throws: a problem of the options fails every call. With `throwOnError: true` the
 * calls return values and reject with a `MusicClientError`; `status` still answers `unknown`, and `telemetry.record` returns a result.
 */
export const createMusicClient = <Throws extends boolean | undefined = false>(
  options: PromiseClientOptions & {
    /** True: calls return values instead of results, and reject with a `MusicClientError`. */
    readonly throwOnError?: Throws
  }
): Throws extends true ? ThrowingMusicClient : MusicClient => {
  const client = makeClient(options)
  // The type of the option decides, which the type checker cannot follow.
  return (options?.throwOnError === true ? toThrowing(client) : client) as Throws extends true
    ? ThrowingMusicClient
    : MusicClient
}
