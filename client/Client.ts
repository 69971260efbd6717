/** The client as plain async functions; both faces are built on it. */
import { publicIdPattern } from "../src/schema/Patterns.ts"
import type { CallError, LocalError, SignedError, StoreError } from "./CallErrors.ts"
import { isText } from "./Values.ts"
import { type Calls, makeCalls } from "./calls/Calls.ts"
import { carriedHeaders, deadlineOf, noExchange, type Scope, timedOut } from "./calls/Deadline.ts"
import type { AnswerOf, EndpointName } from "./calls/Endpoints.ts"
import { newIdempotencyKey } from "./calls/RandomKey.ts"
import { checkRawCall } from "./calls/RawRequest.ts"
import { addressOf } from "./calls/Requests.ts"
import { onAbort, type Time } from "./calls/Time.ts"
import { eventReporter, type ReportEvent } from "./Events.ts"
import { clientFailure, failureOf, invalidInput, isOver, withKey } from "./failures/Failures.ts"
import type {
  CallOptions,
  LoginOptions,
  LogoutOptions,
  MusicClientOptions,
  ReportOptions
} from "./Options.ts"
import { findOptionsProblem } from "./OptionsCheck.ts"
import { isGiven } from "./Values.ts"
import { makeLogin } from "./sessions/Login.ts"
import { makeLogout } from "./sessions/Logout.ts"
import { makeSessionRefresh } from "./sessions/Refresh.ts"
import { infoOf } from "./sessions/SessionRecord.ts"
import { isMissing, makeSessionSlot } from "./sessions/SessionSlot.ts"
import { makeSignedCalls, type Signature } from "./sessions/SignedCalls.ts"
import type { Transport } from "./transport/Transport.ts"
import type {
  Health,
  IamDescriptor,
  LoginInfo,
  LogoutInfo,
  Me,
  MusicError,
  RawAnswer,
  RawRequest,
  Readiness,
  Report,
  ReportRequest,
  Result,
  SessionInfo,
  Status,
  Subscription,
  Ting,
  TingRequest,
  Version
} from "./Types.ts"

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
  readonly me: (options?: CallOptions) => Promise<Result<Me, SignedError<"me">>>
  /** Registers the actor as a recipient; idempotent. */
  readonly subscribe: (options?: CallOptions) => Promise<Result<Subscription, SignedError<"subscribe">>>
  /** Sends a ting; the same key and content within 14 days is sent once. */
  readonly ting: (ting: TingRequest, options?: CallOptions) => Promise<Result<Ting, SignedError<"ting">>>
  /** Signed when a session is stored, unless `anonymous`. A caller that keeps the `idempotencyKey` can retry after a crash without a duplicate. */
  readonly report: (
    report: ReportRequest,
    options?: ReportOptions
  ) => Promise<Result<Report, SignedError<"report">>>
  /** What the service is: its application, scopes and ting types. */
  readonly iam: (options?: CallOptions) => Promise<Result<IamDescriptor, CallError<"iam">>>
  /** The service's version, and the oldest version of a program that it supports. */
  readonly version: (options?: CallOptions) => Promise<Result<Version, CallError<"version">>>
  /** Whether the service's process runs. */
  readonly healthz: (options?: CallOptions) => Promise<Result<Health, CallError<"healthz">>>
  /** Whether the service can serve now. One attempt: `not_ready` is a result. */
  readonly readyz: (options?: CallOptions) => Promise<Result<Readiness, CallError<"readyz">>>
  /** A call that this version does not know, with the session, the retries and the keys of the others. */
  readonly request: (
    method: string,
    path: string,
    options?: RawRequest & CallOptions
  ) => Promise<Result<RawAnswer>>
  /** Ends what watches the session or sends events in the background: the last events are sent, for at most 5 s. Calls still work. */
  readonly close: () => Promise<void>
}

/** What telemetry needs of its client. */
export interface ClientParts {
  readonly options: MusicClientOptions
  readonly calls: Calls
  readonly report: ReportEvent
  readonly time: Time
  readonly run: Run
  /** Called when the client is closed. */
  readonly closers: Set<() => Promise<unknown>>
}

/** Runs a call of the program inside its deadline, until its signal aborts it. The result's errors are those of the method. */
type Run = <A>(call: CallOptions | undefined, work: (scope: Scope) => Promise<A>) => Promise<Result<A, never>>

const partsKey = Symbol.for("music-client/parts")

/** The parts of a client that `createMusicClient` made. */
export const partsOf = (client: object): ClientParts | undefined => Reflect.get(client, partsKey)

/** The same parts for another face of the client. */
export const withParts = <A extends object>(client: A, parts: ClientParts | undefined): A =>
  Object.defineProperty(client, partsKey, { value: parts })

/** Milliseconds: work that ends at its deadline itself says more than the end of the wait for it. */
const grace = 100

/** Completes the key of a ting with the public id of its sender, unless it begins with a public id. */
const completeKey = (key: unknown, publicId: string): unknown =>
  isText(key) && !publicIdPattern.test(key.split("/", 1)[0] ?? "") && key !== "" ? `${publicId}/${key}` : key

const isSignal = (signal: unknown): signal is AbortSignal =>
  typeof signal === "object" &&
  signal !== null &&
  "addEventListener" in signal &&
  typeof signal.addEventListener === "function"

const makeRun =
  (options: MusicClientOptions, time: Time, problem: MusicError | undefined): Run =>
  async (call, work) => {
    const signal: unknown = call?.signal
    const abortedBy = (reason: unknown, requestId: string | null = null) =>
      clientFailure("aborted", { requestId, cause: reason })
    // Programs without a type checker may pass any value.
    const refused = (error: MusicError) => ({ ok: false, error }) as Result<never, never>
    if (isSignal(signal) && signal.aborted) return refused(abortedBy(signal.reason))
    if (problem !== undefined) return refused(problem)
    if (isGiven(signal) && !isSignal(signal)) return refused(invalidInput("signal", "must be an AbortSignal"))
    const deadline = deadlineOf(options, time, call)
    if ("code" in deadline) return refused(deadline)
    const controller = new AbortController()
    const scope: Scope = {
      deadline,
      signal: controller.signal,
      headers: Object(call)[carriedHeaders],
      noted: { metadata: noExchange }
    }
    let letGo: () => void = () => undefined
    const left = new Promise<never>((_, reject) => {
      const late = () => reject(timedOut(deadline))
      const cancel = time.after(deadline.at - time.monotonic() + grace, late)
      const stop = isSignal(signal)
        ? onAbort(signal, () => {
            controller.abort(signal.reason)
            const { sent } = scope.noted
            const failure = abortedBy(signal.reason, sent?.requestId)
            reject(sent?.randomKey === undefined ? failure : withKey(failure, sent.randomKey))
          })
        : () => undefined
      letGo = () => {
        cancel()
        stop()
      }
    })
    try {
      const value = await Promise.race([work(scope), left])
      return { ok: true, value, metadata: scope.noted.metadata }
    } catch (cause) {
      return refused(failureOf(cause))
    } finally {
      letGo()
    }
  }

/** `given` may be anything; `problem` is one of the options that only a face has. */
export const makeClient = (
  given: MusicClientOptions,
  {
    problem,
    time,
    transport
  }: { readonly problem?: MusicError | undefined; readonly time: Time; readonly transport: Transport }
): MusicClient => {
  // A copy: what is changed later was not checked, and must not move a session to another server or plane.
  const options = { ...given }
  const report = eventReporter(options.onEvent)
  const wrong = findOptionsProblem(options)
  const calls = makeCalls(options, { transport, report, time })
  const slot = makeSessionSlot(options, { report, time })
  const refresh = makeSessionRefresh(options, { calls, slot, report, time })
  const signed = makeSignedCalls(options, { calls, slot, refresh, report, time })
  const login = makeLogin({ calls, slot, report })
  const logout = makeLogout({ calls, slot, report, time })
  const run = makeRun(options, time, problem ?? wrong)
  const closers = new Set<() => Promise<unknown>>()
  if (isGiven(options.onEvent) && problem === undefined && wrong === undefined) {
    const stop = slot.watch()
    closers.add(async () => stop())
  }

  const read = <Name extends EndpointName>(
    name: Name,
    call: CallOptions | undefined,
    facts: object = { isQuick: true }
  ) => run(call, (scope): Promise<AnswerOf<Name>> => calls.run(name, scope, facts))

  const me: MusicClient["me"] = (call) =>
    run(call, (scope) => signed.callSigned("me", call, scope, () => ({ isQuick: true })))

  const status: MusicClient["status"] = async (call) => {
    const answer = await me(call)
    if (answer.ok) return { state: "authenticated", me: answer.value }
    const { error } = answer
    if (!isOver(error)) return { state: "unknown", error }
    const reason = error.code === "logged_out" ? error.details.reason : (slot.ended() ?? "not_logged_in")
    return { state: "logged_out", reason }
  }

  const sign = (signature: Signature | undefined) =>
    signature === undefined ? {} : { bearer: signature.bearer, org: signature.org }

  const submitReport: MusicClient["report"] = (payload, call) =>
    run(call, (scope) => {
      const facts = {
        isKeyRandom: !isGiven(call?.idempotencyKey),
        idempotencyKey: call?.idempotencyKey ?? newIdempotencyKey(),
        payload: payload ?? {}
      }
      return call?.anonymous === true
        ? calls.run("report", scope, facts)
        : signed.withOptionalSession(call, scope, (signature) =>
            calls.run("report", scope, { ...facts, ...sign(signature) })
          )
    })

  const request: MusicClient["request"] = (method, path, call) =>
    run(call, (scope) => {
      const checked = checkRawCall(addressOf(options.baseUrl), method, path, call)
      if ("code" in checked) return Promise.reject(checked)
      const { isRead, session, ...facts } = checked
      const key =
        isRead || facts.idempotencyKey !== undefined
          ? {}
          : { idempotencyKey: newIdempotencyKey(), isKeyRandom: true }
      const send = (signature: Signature | undefined) =>
        calls.runAny({ ...facts, ...key, ...sign(signature), call: "request", isQuick: isRead }, scope)
      switch (session) {
        case "none":
          return send(undefined)
        case "required":
          return signed.withSession(call, scope, send)
        default:
          return signed.withOptionalSession(call, scope, send)
      }
    })

  const client: MusicClient = {
    login: (slt, call) => run(call, (scope) => login(slt, call, scope)),
    logout: (call) => run(call, (scope) => logout(call, scope)),
    session: () =>
      run(undefined, () =>
        slot
          .load()
          .then(infoOf, (cause: unknown) => (isMissing(failureOf(cause)) ? null : Promise.reject(cause)))
      ),
    status,
    me,
    subscribe: (call) =>
      run(call, (scope) => signed.callSigned("subscribe", call, scope, () => ({ payload: {} }))),
    ting: (ting, call) =>
      run(call, (scope) =>
        typeof ting !== "object" || ting === null
          ? Promise.reject(invalidInput("ting", "must be an object with type, key and data"))
          : signed.callSigned("ting", call, scope, ({ actor }) => ({
              payload: { ...ting, key: completeKey(ting.key, actor.public_id) }
            }))
      ),
    report: submitReport,
    iam: (call) => read("iam", call),
    version: (call) => read("version", call),
    healthz: (call) => read("healthz", call),
    readyz: (call) => read("readyz", call, { once: true }),
    request,
    close: async () => {
      await Promise.all([...closers].map((close) => close()))
    }
  }
  return withParts(client, { options, calls, report, time, run, closers })
}
