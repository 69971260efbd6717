/** The whole client as effects; the promise client and the Effect client are built on it. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { publicIdPattern } from "../src/schema/Patterns.ts"
import { currentMetadata, type MetadataHolder, noExchange } from "./Attempt.ts"
import { isText } from "./Answers.ts"
import { type CallFailure, makeCalls } from "./Calls.ts"
import { type Deadline, deadlineIn } from "./Deadline.ts"
import type { AnswerOf, EndpointName } from "./Endpoints.ts"
import { eventReporter } from "./Events.ts"
import {
  invalidInput,
  isOver,
  type MusicFailure,
  type OptionsProblem,
  type SessionFailure
} from "./Failures.ts"
import { randomUuid } from "./IdempotencyKeys.ts"
import { type CallOptions, deadlineMillisecondsOf, type MusicClientOptions } from "./Options.ts"
import { findDeadlineProblem } from "./OptionsCheck.ts"
import { rawEndpoint } from "./RawRequest.ts"
import { makeSessionRefresh, type RefreshFailure } from "./Refresh.ts"
import {
  type DeadlineOf,
  type LoginFailure,
  type LoginOptions,
  type LogoutFailure,
  type LogoutOptions,
  makeSessions,
  type Signature
} from "./Sessions.ts"
import { infoOf, makeSessionSlot } from "./SessionSlot.ts"
import { makeTelemetry, type Telemetry } from "./Telemetry.ts"
import type { Transport } from "./Transport.ts"
import type {
  Health,
  IamDescriptor,
  LoginInfo,
  LogoutInfo,
  Me,
  Metadata,
  RawAnswer,
  RawRequest,
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

export type SignedCallFailure<Name extends EndpointName> = CallFailure<Name> | RefreshFailure

/** A client of the service. Every failure is in its type; defects are bugs. */
export interface MusicClientService {
  /**
   * Exchanges a short-lived token for a session and keeps it. The same token twice is one login, also after a crash
   * and within 10 minutes.
   */
  readonly login: (slt: string, options?: LoginOptions) => Effect.Effect<LoginInfo, LoginFailure>
  /** Revokes the session at the service, then clears it. When the service cannot be reached, the session is kept (see `forget`). */
  readonly logout: (options?: LogoutOptions) => Effect.Effect<LogoutInfo, LogoutFailure>
  /** The stored session; makes no call. */
  readonly session: Effect.Effect<Option.Option<SessionInfo>, SessionFailure | OptionsProblem>
  /** Asks the service whether the session is live; distinguishes `logged_out` from `unknown`. */
  readonly status: (options?: CallOptions) => Effect.Effect<Status<SignedCallFailure<"me">>>
  readonly me: (options?: CallOptions) => Effect.Effect<Me, SignedCallFailure<"me">>
  /** Registers the actor as a recipient; idempotent. */
  readonly subscribe: (options?: CallOptions) => Effect.Effect<Subscription, SignedCallFailure<"subscribe">>
  /** Sends a ting; the same key and content within 14 days is sent once. */
  readonly ting: (ting: TingRequest, options?: CallOptions) => Effect.Effect<Ting, SignedCallFailure<"ting">>
  /** Signed when a session is stored. */
  readonly report: (
    report: ReportRequest,
    options?: ReportOptions
  ) => Effect.Effect<Report, SignedCallFailure<"report">>
  readonly iam: (options?: CallOptions) => Effect.Effect<IamDescriptor, CallFailure<"iam">>
  readonly version: (options?: CallOptions) => Effect.Effect<Version, CallFailure<"version">>
  readonly healthz: (options?: CallOptions) => Effect.Effect<Health, CallFailure<"healthz">>
  /** One attempt: `not_ready` is a result. */
  readonly readyz: (options?: CallOptions) => Effect.Effect<Readiness, CallFailure<"readyz">>
  /** A call that this version does not know, with the session, the retries and the keys of the others. */
  readonly request: (
    method: string,
    path: string,
    options?: RawRequest & CallOptions
  ) => Effect.Effect<RawAnswer, MusicFailure>
  readonly telemetry: Telemetry
}

/** Makes a key for a report, to be kept before the report is sent. */
export const newIdempotencyKey: Effect.Effect<string> = randomUuid

/** The value of a call with the exchange behind it: its request id and the quotas after it. */
export const withMetadata = <A, E, R>(
  effect: Effect.Effect<A, E, R>
): Effect.Effect<readonly [A, Metadata], E, R> =>
  Effect.suspend(() => {
    const holder: MetadataHolder = { metadata: noExchange }
    return Effect.map(
      Effect.locally(effect, currentMetadata, holder),
      (value) => [value, holder.metadata] as const
    )
  })

/** Completes the key of a ting with the public id of its sender, unless it begins with a public id. */
const completeKey = (key: unknown, publicId: string): unknown =>
  isText(key) && !publicIdPattern.test(key.split("/", 1)[0] ?? "") && key !== "" ? `${publicId}/${key}` : key

export const makeMusicClient = (
  options: MusicClientOptions,
  transport: Transport
): Effect.Effect<MusicClientService> =>
  Effect.gen(function* () {
    const report = eventReporter(options.onEvent)
    const calls = makeCalls(options, transport, report)
    const deadlineMilliseconds = deadlineMillisecondsOf(options)
    const deadlineOf: DeadlineOf = (call) => {
      const problem = findDeadlineProblem(call?.deadlineMilliseconds)
      return problem === undefined
        ? deadlineIn(call?.deadlineMilliseconds ?? deadlineMilliseconds)
        : Effect.fail(problem)
    }
    const slot = yield* makeSessionSlot(options)
    const refresh = makeSessionRefresh({ calls, slot, report, deadlineMilliseconds })
    const sessions = makeSessions(options, { calls, slot, refresh, report, deadlineOf })
    const telemetry = yield* makeTelemetry(options, { calls, report, deadlineOf })

    const run = <Name extends EndpointName>(
      name: Name,
      call: CallOptions | undefined,
      once = false
    ): Effect.Effect<AnswerOf<Name>, CallFailure<Name>> =>
      Effect.flatMap(deadlineOf(call), (deadline) => calls.run(name, { deadline, once }))

    const me: MusicClientService["me"] = (call) => sessions.callSigned("me", call, () => ({}))

    const status: MusicClientService["status"] = (call) =>
      me(call).pipe(
        Effect.match({
          onSuccess: (value): Status<SignedCallFailure<"me">> => ({ state: "authenticated", me: value }),
          onFailure: (failure): Status<SignedCallFailure<"me">> => {
            if (!isOver(failure)) return { state: "unknown", error: failure }
            const reason =
              failure.code === "logged_out" ? failure.details.reason : (slot.ended() ?? "not_logged_in")
            return { state: "logged_out", reason }
          }
        })
      )

    const sign = (signature: Signature | undefined) =>
      signature === undefined ? {} : { bearer: signature.bearer, org: signature.org }

    const submitReport: MusicClientService["report"] = (payload, call) =>
      Effect.gen(function* () {
        const facts = {
          idempotencyKey: call?.idempotencyKey ?? (yield* newIdempotencyKey),
          payload: payload ?? {}
        }
        if (call?.anonymous === true)
          return yield* calls.run("report", { ...facts, deadline: yield* deadlineOf(call) })
        return yield* sessions.withOptionalSession(call, (signature, deadline) =>
          calls.run("report", { ...facts, ...sign(signature), deadline })
        )
      })

    const request: MusicClientService["request"] = (method, path, call) =>
      Effect.gen(function* () {
        const endpoint = rawEndpoint(options.baseUrl, method, path, call?.query)
        if ("_tag" in endpoint) return yield* endpoint
        const isRead = endpoint.method === "GET" || endpoint.method === "HEAD"
        const facts = {
          call: "request",
          endpoint,
          ...(call?.body === undefined ? {} : { payload: call.body }),
          ...(call?.headers === undefined ? {} : { headers: call.headers }),
          ...(isRead && call?.idempotencyKey === undefined
            ? {}
            : { idempotencyKey: call?.idempotencyKey ?? (yield* newIdempotencyKey) })
        }
        const send = (signature: Signature | undefined, deadline: Deadline) =>
          calls.runAny({ ...facts, ...sign(signature), deadline })
        switch (call?.session) {
          case "none":
            return yield* send(undefined, yield* deadlineOf(call))
          case "required":
            return yield* sessions.withSession(call, send)
          default:
            return yield* sessions.withOptionalSession(call, send)
        }
      })

    return {
      login: sessions.login,
      logout: sessions.logout,
      session: slot.load.pipe(
        Effect.map((stored) => Option.some(infoOf(stored))),
        Effect.catchIf(
          (failure) => failure.code === "not_logged_in",
          () => Effect.succeed(Option.none())
        )
      ),
      status,
      me,
      subscribe: (call) => sessions.callSigned("subscribe", call, () => ({ payload: {} })),
      ting: (ting, call) =>
        typeof ting !== "object" || ting === null
          ? Effect.fail(invalidInput("ting", "must be an object with type, key and data"))
          : sessions.callSigned("ting", call, ({ actor }) => ({
              payload: { ...ting, key: completeKey(ting.key, actor.public_id) }
            })),
      report: submitReport,
      iam: (call) => run("iam", call),
      version: (call) => run("version", call),
      healthz: (call) => run("healthz", call),
      readyz: (call) => run("readyz", call, true),
      request,
      telemetry
    }
  })
