import { clientVersionPattern, testingSecretPattern } from "../src/schema/Patterns.ts"
import type { EventListener } from "./Events.ts"
import type { ErrorOf, Source } from "./Types.ts"
import { isGiven, isText } from "./Values.ts"
import { longestTimer } from "./calls/Time.ts"
import { invalidInput, type OptionsProblem, serviceFailure } from "./failures/Failures.ts"
import type { SessionLock, SessionStore } from "./stores/SessionStore.ts"

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

const findAddressProblem = (baseUrl: unknown): OptionsProblem | undefined => {
  const hint = "Give the address of the service as baseUrl, such as https://music.example."
  if (typeof baseUrl !== "string" || !URL.canParse(baseUrl) || !/^https?:$/.test(new URL(baseUrl).protocol))
    return invalidInput("baseUrl", "must be an http or https URL", hint)
  const { password, username } = new URL(baseUrl)
  if (username !== "" || password !== "")
    return invalidInput("baseUrl", "must not contain a name or password", hint)
  // An empty `?` or `#` would also end the address in front of the path of each call.
  return /[?#]/.test(baseUrl) ? invalidInput("baseUrl", "must not have a query or fragment", hint) : undefined
}

/** Options that may be left out: whether a value is one, and what it must be. Programs without a type checker may pass any value. */
export type Checks = Readonly<
  Record<string, readonly [isRight: (value: unknown) => boolean, problem: string]>
>

/** The problem of the first option that is given and wrong. */
export const findWrong = (given: object, checks: Checks): ErrorOf<"invalid_input"> | undefined => {
  for (const [name, [isRight, problem]] of Object.entries(checks)) {
    const value: unknown = Reflect.get(given, name)
    if (isGiven(value) && !isRight(value)) return invalidInput(name, problem)
  }
  return undefined
}

export const isFunction = (value: unknown): value is () => unknown => typeof value === "function"

export const withMethods =
  (...methods: ReadonlyArray<string>) =>
  (value: unknown): boolean =>
    typeof value === "object" && methods.every((name) => isFunction(Reflect.get(Object(value), name)))

/** The check of a time. */
export const duration: Checks[string] = [
  (value) => typeof value === "number" && value > 0 && value <= longestTimer,
  `must be a number above 0 and at most ${longestTimer}`
]

const callback: Checks[string] = [isFunction, "must be a function"]

const checks = {
  deadlineMilliseconds: duration,
  attemptMilliseconds: duration,
  version: [(value) => isText(value) && clientVersionPattern.test(value), "must have the form 1.2.3"],
  org: [(value) => isText(value) && value !== "", "must be the handle of an organisation"],
  sessionStore: [withMethods("load", "save", "clear"), "must have load, save and clear"],
  lock: [withMethods("acquire"), "must have acquire"],
  onEvent: callback,
  onRequest: callback
} satisfies Checks

/** Those with a check of their own. */
const others = { baseUrl: true, source: true, telemetry: true, testingKey: true }
const names = Object.keys({ ...others, ...checks } satisfies Record<keyof MusicClientOptions, unknown>)

/**
 * A copy: what is changed later was not checked, and must not move a session to another server or plane. By name: a spread has none of the
 * accessors of a class, and without its testing key a test would run in production.
 */
export const copyOf = (given: MusicClientOptions): MusicClientOptions =>
  Object.fromEntries(
    names.filter((name) => name in Object(given)).map((name) => [name, Reflect.get(given, name)])
  ) as unknown as MusicClientOptions

/** Returns the first problem. */
export const findOptionsProblem = (options: MusicClientOptions): OptionsProblem | undefined => {
  const address = findAddressProblem(options.baseUrl)
  if (address !== undefined) return address
  if (!["cli", "daemon", "web"].includes(options.source))
    return invalidInput("source", "must be cli, daemon or web")
  if (typeof options.telemetry !== "boolean") return invalidInput("telemetry", "must be true or false")
  const { testingKey } = options
  // An empty or malformed key is a mistake in a test's configuration; it must never select production.
  const isSecret = typeof testingKey === "string" && testingSecretPattern.test(testingKey)
  if ("testingKey" in options && testingKey !== null && !isSecret)
    return serviceFailure("testing_secret_invalid", {
      hint: "Give testingKey an `ask_` secret, or null for production."
    })
  return findWrong(options, checks)
}
