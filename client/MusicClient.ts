/** The whole client as effects; the promise client and the Effect client are built on it. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { publicIdPattern } from "../src/schema/Patterns.ts"
import { currentMetadata, type MetadataHolder, noExchange } from "./calls/Attempt.ts"
import { isText } from "./calls/Answers.ts"
import { callDeadline } from "./calls/CallDeadline.ts"
import { type CallFailure, makeCalls } from "./calls/Calls.ts"
import type { Deadline } from "./calls/Deadline.ts"
import type { AnswerOf, EndpointName } from "./calls/Endpoints.ts"
import { eventReporter } from "./Events.ts"
import {
  invalidInput,
  isOver,
  type MusicFailure,
  type OptionsProblem,
  type SessionFailure
} from "./failures/Failures.ts"
import { type Login, makeLogin } from "./sessions/Login.ts"
import { type Logout, makeLogout } from "./sessions/Logout.ts"
import { randomUuid } from "./calls/IdempotencyKeys.ts"
import type { CallOptions, MusicClientOptions, ReportOptions } from "./Options.ts"
import { findOptionsProblem } from "./OptionsCheck.ts"
import { checkRawCall } from "./calls/RawRequest.ts"
import { addressOf } from "./calls/Requests.ts"
import { makeSessionRefresh, type RefreshFailure } from "./sessions/Refresh.ts"
import { makeSignedCalls, type Signature } from "./sessions/SignedCalls.ts"
import { infoOf } from "./sessions/SessionRecord.ts"
import { makeSessionSlot } from "./sessions/SessionSlot.ts"
import { makeTelemetry, type Telemetry } from "./telemetry/Telemetry.ts"
import type { Transport } from "./transport/Transport.ts"
import type {
  Health,
  IamDescriptor,
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

export type SignedCallFailure<Name extends EndpointName> = CallFailure<Name> | RefreshFailure

/** A client of the service. Every failure is in its type; defects are bugs. */
export interface MusicClientService {
  /**
   * Exchanges a short-lived token for a session and keeps it. The same token twice is one login, also after a crash
   * and within 10 minutes.
   */
  readonly login: Login
  /** Revokes the session at the service, then clears it. When the service cannot be reached, the session is kept (see `forget`). */
  readonly logout: Logout
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
    return Effect.map(withHolder(effect, holder), (value) => [value, holder.metadata] as const)
  })

/** Runs a call, and notes its exchange in `holder`. */
export const withHolder = <A, E, R>(effect: Effect.Effect<A, E, R>, holder: MetadataHolder) =>
  Effect.locally(effect, currentMetadata, holder)

/** Completes the key of a ting with the public id of its sender, unless it begins with a public id. */
const completeKey = (key: unknown, publicId: string): unknown =>
  isText(key) && !publicIdPattern.test(key.split("/", 1)[0] ?? "") && key !== "" ? `${publicId}/${key}` : key

export const makeMusicClient = (
  given: MusicClientOptions,
  transport: Transport
): Effect.Effect<MusicClientService> =>
  Effect.gen(function* () {
    // A copy: what is changed later was not checked, and must not move a session to another server or plane.
    const options = { ...given }
    const report = eventReporter(options.onEvent)
    const calls = makeCalls(options, transport, report)
    const deadlineOf = callDeadline(options)
    const slot = yield* makeSessionSlot(options)
    const refresh = makeSessionRefresh({ calls, slot, report, deadlineOf })
    const signed = makeSignedCalls(options, { calls, slot, refresh, report, deadlineOf })
    const telemetry = yield* makeTelemetry(options, { calls, report, deadlineOf })

    const run = <Name extends EndpointName>(
      name: Name,
      call: CallOptions | undefined,
      once = false
    ): Effect.Effect<AnswerOf<Name>, CallFailure<Name>> =>
      Effect.flatMap(deadlineOf(call), (deadline) => calls.run(name, { deadline, once }))

    const me: MusicClientService["me"] = (call) => signed.callSigned("me", call, () => ({}))

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
          isKeyRandom: call?.idempotencyKey === undefined,
          idempotencyKey: call?.idempotencyKey ?? (yield* newIdempotencyKey),
          payload: payload ?? {}
        }
        if (call?.anonymous === true)
          return yield* calls.run("report", { ...facts, deadline: yield* deadlineOf(call) })
        return yield* signed.withOptionalSession(call, (signature, deadline) =>
          calls.run("report", { ...facts, ...sign(signature), deadline })
        )
      })

    const request: MusicClientService["request"] = (method, path, call) =>
      Effect.gen(function* () {
        const problem = findOptionsProblem(options)
        if (problem !== undefined) return yield* problem
        const checked = checkRawCall(addressOf(options.baseUrl), method, path, call)
        if ("code" in checked) return yield* checked
        const { isRead, session, ...facts } = checked
        const key = isRead || facts.idempotencyKey !== undefined ? undefined : yield* newIdempotencyKey
        const send = (signature: Signature | undefined, deadline: Deadline) =>
          calls.runAny({
            ...facts,
            ...(key === undefined ? {} : { idempotencyKey: key, isKeyRandom: true }),
            ...sign(signature),
            call: "request",
            deadline
          })
        switch (session) {
          case "none":
            return yield* send(undefined, yield* deadlineOf(call))
          case "required":
            return yield* signed.withSession(call, send)
          default:
            return yield* signed.withOptionalSession(call, send)
        }
      })

    return {
      login: makeLogin({ calls, slot, report, deadlineOf }),
      logout: makeLogout({ calls, slot, report, deadlineOf }),
      session: slot.load.pipe(
        Effect.map((stored) => Option.some(infoOf(stored))),
        Effect.catchIf(
          (failure) => failure.code === "not_logged_in",
          () => Effect.succeed(Option.none())
        )
      ),
      status,
      me,
      subscribe: (call) => signed.callSigned("subscribe", call, () => ({ payload: {} })),
      ting: (ting, call) =>
        typeof ting !== "object" || ting === null
          ? Effect.fail(invalidInput("ting", "must be an object with type, key and data"))
          : signed.callSigned("ting", call, ({ actor }) => ({
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
