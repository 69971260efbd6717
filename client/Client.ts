/** The client as plain async functions; both faces are built on it. */
import { publicIdPattern } from "../src/schema/Patterns.ts"
import { eventReporter, type ReportEvent } from "./Events.ts"
import {
  type CallOptions,
  copyOf,
  findOptionsProblem,
  type LoginOptions,
  type LogoutOptions,
  type MusicClientOptions,
  type ReportOptions
} from "./Options.ts"
import type { Send } from "./Transport.ts"
import type {
  LoginInfo,
  LogoutInfo,
  RawAnswer,
  RawRequest,
  ReportRequest,
  Result,
  SessionInfo,
  Status,
  TingRequest
} from "./Types.ts"
import { copied, isGiven, isText } from "./Values.ts"
import { type CallFacts, type Calls, makeCalls } from "./calls/Calls.ts"
import { makeRun, type Run } from "./calls/Deadline.ts"
import type {
  AnswerOf,
  CallError,
  EndpointName,
  LocalError,
  SignedError,
  StoreError
} from "./calls/Endpoints.ts"
import { newIdempotencyKey } from "./calls/RandomKey.ts"
import { checkRawCall } from "./calls/RawRequest.ts"
import { addressOf } from "./calls/Requests.ts"
import type { Time } from "./calls/Time.ts"
import { failWith, invalidInput, isOver, type OptionsProblem } from "./failures/Failures.ts"
import { makeLogin, makeLogout } from "./sessions/Login.ts"
import { makeSessionRefresh } from "./sessions/Refresh.ts"
import { infoOf } from "./sessions/SessionRecord.ts"
import { makeSessionSlot, type SessionParts } from "./sessions/SessionSlot.ts"
import { makeSignedCalls, type Signature } from "./sessions/SignedCalls.ts"

/** The result of a call without a session: the answer of the contract, or an error that it can have. */
type Answered<Name extends EndpointName> = Promise<Result<AnswerOf<Name>, CallError<Name>>>
/** The result of a call with a session, which may need a refresh. */
type Signed<Name extends EndpointName> = Promise<Result<AnswerOf<Name>, SignedError<Name>>>

/** A client of the service. Every call resolves to a result; none rejects. */
export interface MusicClient {
  /**
   * Exchanges a short-lived token for a session and stores it. The same token twice is one login, also after a crash
   * within 10 minutes. `idempotencyKey` continues a login of a test public id, which has no key of its own.
   */
  readonly login: (
    slt: string,
    options?: LoginOptions
  ) => Promise<Result<LoginInfo, CallError<"login"> | StoreError>>
  /**
   * Revokes the session at the service, then clears it. When the service cannot be reached, the session is kept; with
   * `forget` it is cleared first and at once, and then revoked if the service answers within 2 s.
   */
  readonly logout: (options?: LogoutOptions) => Promise<Result<LogoutInfo, CallError<"logout"> | StoreError>>
  /** The stored session, or null; makes no call. */
  readonly session: () => Promise<Result<SessionInfo | null, LocalError | StoreError>>
  /** Asks the service whether the session is live; distinguishes `logged_out` from `unknown`. */
  readonly status: (options?: CallOptions) => Promise<Status<SignedError<"me">>>
  /** The actor of the session, as the service sees it now. */
  readonly me: (options?: CallOptions) => Signed<"me">
  /** Registers the actor as a recipient; idempotent. */
  readonly subscribe: (options?: CallOptions) => Signed<"subscribe">
  /** Sends a ting; the same key and content within 14 days is sent once. */
  readonly ting: (ting: TingRequest, options?: CallOptions) => Signed<"ting">
  /** Signed when a session is stored, unless `anonymous`. A caller that keeps the `idempotencyKey` can retry after a crash without a duplicate. */
  readonly report: (report: ReportRequest, options?: ReportOptions) => Signed<"report">
  /** What the service is: its application, scopes and ting types. */
  readonly iam: (options?: CallOptions) => Answered<"iam">
  /** The service's version, and the oldest version of a program that it supports. */
  readonly version: (options?: CallOptions) => Answered<"version">
  /** Whether the service's process runs. */
  readonly healthz: (options?: CallOptions) => Answered<"healthz">
  /** Whether the service can serve now. One attempt: `not_ready` is a result. */
  readonly readyz: (options?: CallOptions) => Answered<"readyz">
  /** A call that this version does not know, with the session, the retries and the keys of the others. */
  readonly request: (
    method: string,
    path: string,
    options?: RawRequest & CallOptions
  ) => Promise<Result<RawAnswer>>
  /** Ends what watches the session or sends events in the background: the last events are sent, for at most 5 s. Calls still work. */
  readonly close: () => Promise<void>
}

/** How many parameters come before the options, for the methods that have some. */
export const leadingParameters: Readonly<Record<string, number>> = {
  login: 1,
  ting: 1,
  report: 1,
  request: 2,
  record: 2
}

/** What telemetry needs of its client. */
interface ClientParts {
  readonly options: MusicClientOptions
  /** Of the options: every call fails with it. */
  readonly problem: OptionsProblem | undefined
  readonly calls: Calls
  readonly report: ReportEvent
  readonly time: Time
  readonly run: Run
  /** Called when the client is closed. */
  readonly closers: Set<() => Promise<unknown>>
}

const partsKey = Symbol.for("music-client/parts")

/** The parts of a client that `createMusicClient` made. */
export const partsOf = (client: object): ClientParts | undefined => Reflect.get(Object(client), partsKey)

/** The same parts for another face of the client. */
export const withParts = <A extends object>(client: A, parts: ClientParts | undefined): A =>
  Object.defineProperty(client, partsKey, { value: parts })

/** Whether a method answered with a result; `status` and `close` have none. */
export const isResult = (answer: unknown): answer is Result<unknown> =>
  typeof answer === "object" && answer !== null && "ok" in answer

/** Completes the key of a ting with the public id of its sender, unless it begins with a public id. */
const completeKey = (key: unknown, publicId: string): unknown =>
  isText(key) && !publicIdPattern.test(key.split("/", 1)[0] ?? "") && key !== "" ? `${publicId}/${key}` : key

/** `given` may be anything; `problem` is one of the options that only a face has. */
export const makeClient = (
  given: MusicClientOptions,
  {
    problem,
    send,
    time
  }: { readonly problem?: OptionsProblem | undefined; readonly send: Send; readonly time: Time }
): MusicClient => {
  const options = copyOf(given)
  const report = eventReporter(options.onEvent)
  const wrong = problem ?? findOptionsProblem(options)
  const calls = makeCalls(options, { send, report, time })
  const slot = makeSessionSlot(options, { report, time })
  const parts: SessionParts = { calls, slot, report, time }
  const signed = makeSignedCalls(options, parts, makeSessionRefresh(options, parts))
  const login = makeLogin(parts)
  const logout = makeLogout(parts)
  const run = makeRun(options, time, wrong)
  const closers = new Set<() => Promise<unknown>>()
  if (isGiven(options.onEvent) && wrong === undefined) {
    const stop = slot.watch()
    closers.add(async () => stop())
  }

  const read =
    <Name extends EndpointName>(name: Name, facts: CallFacts = { isQuick: true }) =>
    (call?: CallOptions) =>
      run(call, (scope): Promise<AnswerOf<Name>> => calls.run(name, scope, facts))

  const client: MusicClient = {
    login: (slt, call) => run(call, (scope) => login(slt, call, scope)),
    logout: (call) => run(call, (scope) => logout(call, scope)),
    session: () =>
      run(undefined, async ({ deadline }) => {
        const stored = await slot.find(deadline)
        return stored === undefined ? null : infoOf(stored)
      }),
    status: async (call) => {
      const answer = await client.me(call)
      if (answer.ok) return { state: "authenticated", me: answer.value }
      const { error } = answer
      if (!isOver(error)) return { state: "unknown", error }
      const reason = error.code === "logged_out" ? error.details.reason : (slot.ended() ?? "not_logged_in")
      return { state: "logged_out", reason }
    },
    me: (call) => run(call, (scope) => signed.callSigned("me", call, scope, () => ({ isQuick: true }))),
    subscribe: (call) =>
      run(call, (scope) => signed.callSigned("subscribe", call, scope, () => ({ payload: {} }))),
    ting: (given, call) =>
      run(call, (scope) => {
        const ting = copied(given)
        return typeof ting !== "object" || ting === null
          ? failWith(invalidInput("ting", "must be an object with type, key and data"))
          : signed.callSigned("ting", call, scope, ({ actor }) => ({
              payload: { ...ting, key: completeKey(ting.key, actor.public_id) }
            }))
      }),
    report: (payload, call) =>
      run(call, (scope) => {
        const facts = {
          isKeyRandom: !isGiven(call?.idempotencyKey),
          idempotencyKey: call?.idempotencyKey ?? newIdempotencyKey(),
          payload: copied(payload) ?? {}
        }
        const send = (signature?: Signature) => calls.run("report", scope, { ...facts, ...signature })
        return call?.anonymous === true ? send() : signed.withOptionalSession(call?.org, scope, send)
      }),
    iam: read("iam"),
    version: read("version"),
    healthz: read("healthz"),
    readyz: read("readyz", { once: true }),
    request: (method, path, call) =>
      run(call, (scope) => {
        const checked = checkRawCall(addressOf(options.baseUrl), method, path, call)
        if ("code" in checked) return failWith(checked)
        const { isRead, session, ...facts } = checked
        const hasKey = isRead || facts.idempotencyKey !== undefined
        const key = hasKey ? {} : { idempotencyKey: newIdempotencyKey(), isKeyRandom: true }
        const send = (signature?: Signature) =>
          calls.runAny({ ...facts, ...key, ...signature, call: "request", isQuick: isRead }, scope)
        if (session === "none") return send()
        return session === "required"
          ? signed.withSession(call?.org, scope, send)
          : signed.withOptionalSession(call?.org, scope, send)
      }),
    close: async () => {
      await Promise.allSettled([...closers].map((close) => close()))
    }
  }
  return withParts(client, { options, problem: wrong, calls, report, time, run, closers })
}
