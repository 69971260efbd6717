/** Everything that a client does, as effects; both faces are made of it. */
import type * as HttpClient from "@effect/platform/HttpClient"
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import { type AnyCallFailure, type Derived, type FailureOf, makeCalls } from "./Calls.ts"
import type { SessionFailure } from "./Failures.ts"
import { randomUuid } from "./IdempotencyKeys.ts"
import type { CallOptions, MusicClientOptions } from "./Options.ts"
import type { OptionsProblem } from "./OptionsCheck.ts"
import { makeRefreshing, type RefreshFailure } from "./Refresh.ts"
import { deadlineIn } from "./Retry.ts"
import {
  type LoginFailure,
  type LoginOptions,
  type LogoutFailure,
  type LogoutOptions,
  makeSessions
} from "./Sessions.ts"
import { makeSlot } from "./SessionSlot.ts"
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
  /** Names the report: kept by the caller, it makes a retry after a crash harmless. Default: a random one for this call. */
  readonly idempotencyKey?: string
  /** Send it without a name, although somebody is signed in. */
  readonly anonymous?: boolean
}

type Of<Method> = FailureOf<Method> | AnyCallFailure
type Signed<Method> = Of<Method> | RefreshFailure

type MeFailure = Signed<Derived["auth"]["me"]>

/** A client of the service. Every failure is in its type; defects are bugs. */
export interface MusicClientService {
  /**
   * Exchanges a short-lived token for a session and keeps it. The same token twice is one login, also after a crash
   * and within 10 minutes.
   */
  readonly login: (slt: string, options?: LoginOptions) => Effect.Effect<LoginInfo, LoginFailure>
  /** Ends the session there, then here. When the service cannot be told, the session is kept (see `forget`). */
  readonly logout: (options?: LogoutOptions) => Effect.Effect<void, LogoutFailure>
  /** Who is signed in as far as the store knows; asks nobody. */
  readonly session: Effect.Effect<Option.Option<SessionInfo>, SessionFailure | OptionsProblem>
  /** Asks the service whether the session lives, and tells "logged out" from "cannot tell now". */
  readonly status: (options?: CallOptions) => Effect.Effect<Status<MeFailure>>
  readonly me: (options?: CallOptions) => Effect.Effect<Me, MeFailure>
  /** Registers the actor as a recipient; registering twice is registering once. */
  readonly subscribe: (
    options?: CallOptions
  ) => Effect.Effect<Subscription, Signed<Derived["tings"]["subscribe"]>>
  /** Sends a ting once, however often it is tried with the same key and content (remembered for 14 days). */
  readonly ting: (
    ting: TingRequest,
    options?: CallOptions
  ) => Effect.Effect<Ting, Signed<Derived["tings"]["send"]>>
  /** Signed when somebody is signed in. */
  readonly report: (
    report: ReportRequest,
    options?: ReportOptions
  ) => Effect.Effect<Report, Signed<Derived["reports"]["submit"]>>
  readonly iam: (options?: CallOptions) => Effect.Effect<IamDescriptor, Of<Derived["descriptors"]["iam"]>>
  readonly version: (options?: CallOptions) => Effect.Effect<Version, Of<Derived["descriptors"]["version"]>>
  readonly healthz: (options?: CallOptions) => Effect.Effect<Health, Of<Derived["system"]["healthz"]>>
  readonly readyz: (options?: CallOptions) => Effect.Effect<Readiness, Of<Derived["system"]["readyz"]>>
  readonly telemetry: Telemetry
}

/** A key for a report that the caller wants to keep before sending it. */
export const newIdempotencyKey: Effect.Effect<string> = randomUuid

export const makeCore = (
  options: MusicClientOptions
): Effect.Effect<MusicClientService, never, HttpClient.HttpClient> =>
  Effect.gen(function* () {
    const deadlineMilliseconds = options.deadlineMilliseconds ?? 30_000
    const calls = yield* makeCalls(options)
    const slot = yield* makeSlot(options)
    const refreshing = makeRefreshing(calls, slot, deadlineMilliseconds)
    const sessions = makeSessions(options, { calls, slot, refreshing, deadlineMilliseconds })
    const telemetry = yield* makeTelemetry(options, calls, deadlineMilliseconds)
    const deadlineOf = (call: CallOptions | undefined) =>
      deadlineIn(call?.deadlineMilliseconds ?? deadlineMilliseconds)

    const me: MusicClientService["me"] = (call) =>
      sessions.signed(call, (client, organisation) =>
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
        return yield* sessions.signedIfPossible(call, (client, organisation) =>
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
        sessions.signed(call, (client, organisation) =>
          client.tings.subscribe({ headers: { "x-org-id": organisation }, payload: {} })
        ),
      ting: (payload, call) =>
        sessions.signed(call, (client, organisation) =>
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
