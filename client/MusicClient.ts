/** The whole client as effects; the promise client and the Effect client are built on it. */
import type * as HttpClient from "@effect/platform/HttpClient"
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import { type AnyCallFailure, type DerivedClient, type FailureOf, makeCalls } from "./Calls.ts"
import type { SessionFailure } from "./Failures.ts"
import { randomUuid } from "./IdempotencyKeys.ts"
import type { CallOptions, MusicClientOptions } from "./Options.ts"
import type { OptionsProblem } from "./OptionsCheck.ts"
import { makeSessionRefresh, type RefreshFailure } from "./Refresh.ts"
import { deadlineIn } from "./Deadline.ts"
import {
  type LoginFailure,
  type LoginOptions,
  type LogoutFailure,
  type LogoutOptions,
  makeSessions
} from "./Sessions.ts"
import { makeSessionSlot } from "./SessionSlot.ts"
import { makeTelemetry, type Telemetry } from "./Telemetry.ts"
import type {
  Health,
  IamDescriptor,
  LoginInfo,
  Me,
  Readiness,
  Report,
  ReportRequest,
  SessionInfo,
  Status,
  Subscription,
  Ting,
  TingRequest,
  Version
} from "./Types.ts"

export interface ReportOptions extends CallOptions {
  /** Key of the report. A caller that keeps it can retry after a crash without a duplicate. Default: random for this call. */
  readonly idempotencyKey?: string
  /** Send the report without the session. */
  readonly anonymous?: boolean
}

type CallFailure<Method> = FailureOf<Method> | AnyCallFailure
type SignedCallFailure<Method> = CallFailure<Method> | RefreshFailure

type MeFailure = SignedCallFailure<DerivedClient["auth"]["me"]>

/** A client of the service. Every failure is in its type; defects are bugs. */
export interface MusicClientService {
  /**
   * Exchanges a short-lived token for a session and keeps it. The same token twice is one login, also after a crash
   * and within 10 minutes.
   */
  readonly login: (slt: string, options?: LoginOptions) => Effect.Effect<LoginInfo, LoginFailure>
  /** Revokes the session at the service, then clears it. When the service cannot be reached, the session is kept (see `forget`). */
  readonly logout: (options?: LogoutOptions) => Effect.Effect<void, LogoutFailure>
  /** The stored session; makes no call. */
  readonly session: Effect.Effect<Option.Option<SessionInfo>, SessionFailure | OptionsProblem>
  /** Asks the service whether the session is live; distinguishes `logged_out` from `unknown`. */
  readonly status: (options?: CallOptions) => Effect.Effect<Status<MeFailure>>
  readonly me: (options?: CallOptions) => Effect.Effect<Me, MeFailure>
  /** Registers the actor as a recipient; idempotent. */
  readonly subscribe: (
    options?: CallOptions
  ) => Effect.Effect<Subscription, SignedCallFailure<DerivedClient["tings"]["subscribe"]>>
  /** Sends a ting; the same key and content within 14 days is sent once. */
  readonly ting: (
    ting: TingRequest,
    options?: CallOptions
  ) => Effect.Effect<Ting, SignedCallFailure<DerivedClient["tings"]["send"]>>
  /** Signed when a session is stored. */
  readonly report: (
    report: ReportRequest,
    options?: ReportOptions
  ) => Effect.Effect<Report, SignedCallFailure<DerivedClient["reports"]["submit"]>>
  readonly iam: (
    options?: CallOptions
  ) => Effect.Effect<IamDescriptor, CallFailure<DerivedClient["descriptors"]["iam"]>>
  readonly version: (
    options?: CallOptions
  ) => Effect.Effect<Version, CallFailure<DerivedClient["descriptors"]["version"]>>
  readonly healthz: (
    options?: CallOptions
  ) => Effect.Effect<Health, CallFailure<DerivedClient["system"]["healthz"]>>
  readonly readyz: (
    options?: CallOptions
  ) => Effect.Effect<Readiness, CallFailure<DerivedClient["system"]["readyz"]>>
  readonly telemetry: Telemetry
}

/** Makes a key for a report, to be kept before the report is sent. */
export const newIdempotencyKey: Effect.Effect<string> = randomUuid

export const makeMusicClient = (
  options: MusicClientOptions
): Effect.Effect<MusicClientService, never, HttpClient.HttpClient> =>
  Effect.gen(function* () {
    const deadlineMilliseconds = options.deadlineMilliseconds ?? 30_000
    const calls = yield* makeCalls(options)
    const slot = yield* makeSessionSlot(options)
    const refresh = makeSessionRefresh(calls, slot, deadlineMilliseconds)
    const sessions = makeSessions(options, { calls, slot, refresh, deadlineMilliseconds })
    const telemetry = yield* makeTelemetry(options, calls, deadlineMilliseconds)
    const deadlineOf = (call: CallOptions | undefined) =>
      deadlineIn(call?.deadlineMilliseconds ?? deadlineMilliseconds)

    const me: MusicClientService["me"] = (call) =>
      sessions.callSigned(call, (client, organisation) =>
        client.auth.me({ headers: { "x-org-id": organisation } })
      )

    const status: MusicClientService["status"] = (call) =>
      me(call).pipe(
        Effect.match({
          onSuccess: (value): Status<MeFailure> => ({ state: "authenticated", me: value }),
          onFailure: (failure): Status<MeFailure> =>
            failure._tag === "NotLoggedIn" || failure._tag === "LoggedOut"
              ? { state: "logged_out", reason: failure.code }
              : { state: "unknown", error: failure }
        })
      )

    const report: MusicClientService["report"] = (payload, call) =>
      Effect.gen(function* () {
        const key = call?.idempotencyKey ?? (yield* newIdempotencyKey)
        const headers = { "idempotency-key": key }
        if (call?.anonymous === true) {
          const deadline = yield* deadlineOf(call)
          return yield* calls.run({ deadline }, (client) => client.reports.submit({ headers, payload }))
        }
        return yield* sessions.callSignedIfPossible(call, (client, organisation) =>
          client.reports.submit({
            headers: organisation === undefined ? headers : { ...headers, "x-org-id": organisation },
            payload
          })
        )
      })

    return {
      login: sessions.login,
      logout: sessions.logout,
      session: sessions.session,
      status,
      me,
      subscribe: (call) =>
        sessions.callSigned(call, (client, organisation) =>
          client.tings.subscribe({ headers: { "x-org-id": organisation }, payload: {} })
        ),
      ting: (payload, call) =>
        sessions.callSigned(call, (client, organisation) =>
          client.tings.send({ headers: { "x-org-id": organisation }, payload })
        ),
      report,
      iam: (call) =>
        Effect.flatMap(deadlineOf(call), (deadline) =>
          calls.run({ deadline }, (client) => client.descriptors.iam({}))
        ),
      version: (call) =>
        Effect.flatMap(deadlineOf(call), (deadline) =>
          calls.run({ deadline }, (client) => client.descriptors.version({}))
        ),
      healthz: (call) =>
        Effect.flatMap(deadlineOf(call), (deadline) =>
          calls.run({ deadline }, (client) => client.system.healthz({}))
        ),
      readyz: (call) =>
        Effect.flatMap(deadlineOf(call), (deadline) =>
          calls.run({ deadline, once: true }, (client) => client.system.readyz({}))
        ),
      telemetry
    }
  })
