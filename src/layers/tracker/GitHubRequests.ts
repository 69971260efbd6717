/** One HTTP exchange with the GitHub REST API: headers, timeout, redirects (issue-tracker.md 1). No retries, no plugins. */
import { Octokit } from "@octokit/core"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { version } from "../../schema/Release.ts"
import { NotExecuted, Unknown } from "../../services/UpstreamFailure.ts"
import { recordResponseStatus, traceHeaders } from "../upstream/CallMetrics.ts"

const timeout = Duration.seconds(15)

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | number | undefined>>
  readonly data: unknown
}

export interface Ask {
  readonly method: "GET" | "POST" | "PATCH"
  /** Path below the base URL with `{name}` variables, filled in from `path`; they are percent-encoded. */
  readonly route: string
  readonly path?: Readonly<Record<string, string | number>>
  readonly query?: Readonly<Record<string, string | number>>
  readonly body?: Readonly<Record<string, unknown>>
}

export interface Requests {
  /** Whatever was answered, errors included. Fails only without an answer: `NotExecuted` when the connection was never made. */
  readonly send: (ask: Ask) => Effect.Effect<Answer, NotExecuted | Unknown>
}

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

export const makeRequests = (target: {
  readonly url: string
  readonly token: Redacted.Redacted
}): Requests => {
  const octokit = new Octokit({
    baseUrl: target.url,
    userAgent: `music-backend/${version}`,
    log: silent,
    request: { redirect: "manual", log: silent }
  })
  // Octokit's own token option would send the scheme `token`; the contract says Bearer.
  const headers = () => ({
    authorization: `Bearer ${Redacted.value(target.token)}`,
    accept: "application/vnd.github+json",
    "x-github-api-version": "2022-11-28"
  })

  const exchange = (
    method: string,
    url: string,
    ask: Ask,
    trace: Readonly<Record<string, string>>
  ): Effect.Effect<Answer, NotExecuted | Unknown> =>
    Effect.tryPromise({
      try: (signal) =>
        octokit.request({
          method,
          url,
          ...ask.path,
          ...(method === "GET" ? ask.query : ask.body === undefined ? {} : { data: ask.body }),
          headers: { ...trace, ...headers() },
          request: { signal }
        }),
      catch: (error) => error
    }).pipe(
      Effect.map(({ data, headers: answered, status }): Answer => ({ data, headers: answered, status })),
      Effect.catchAll((error) => {
        const answer = answerIn(error)
        return answer === undefined ? Effect.fail(unanswered(error)) : Effect.succeed(answer)
      }),
      Effect.timeoutFail({
        duration: timeout,
        onTimeout: () => new Unknown({ dependency: "tracker", reason: "no answer within 15 seconds" })
      })
    )

  const send = (ask: Ask) =>
    Effect.gen(function* () {
      const trace = yield* traceHeaders
      const first = yield* exchange(ask.method, ask.route, ask, trace)
      const elsewhere = redirection(first, target.url)
      // Once, and never to another host: the request carries the token.
      return elsewhere === undefined
        ? first
        : yield* exchange(ask.method, elsewhere, { ...ask, path: {} }, trace)
    }).pipe(Effect.tap(({ status }) => recordResponseStatus(status)))

  return { send }
}

/** Where a 307 or 308 points, when that is the same origin. */
const redirection = ({ headers, status }: Answer, base: string): string | undefined => {
  const location = headers.location
  if ((status !== 307 && status !== 308) || typeof location !== "string" || !URL.canParse(location, base))
    return undefined
  const target = new URL(location, base)
  if (target.origin !== new URL(base).origin) return undefined
  // Octokit reads templates in URLs.
  return `${target.origin}${target.pathname.replace(/[:{}]/g, encodeURIComponent)}`
}

const property = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined

const isHeaders = (value: unknown): value is Answer["headers"] => typeof value === "object" && value !== null

/** Octokit rejects with what it received for every status from 400 on. */
const answerIn = (error: unknown): Answer | undefined => {
  const response = property(error, "response")
  const status = property(response, "status")
  const headers = property(response, "headers")
  return typeof status === "number" && isHeaders(headers)
    ? { status, headers, data: property(response, "data") }
    : undefined
}

/** What shows that no byte of the request was sent. */
const neverConnected = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EADDRNOTAVAIL",
  "UND_ERR_CONNECT_TIMEOUT",
  "CERT_HAS_EXPIRED",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "ERR_TLS_CERT_ALTNAME_INVALID"
])

const codeIn = (error: unknown, depth = 0): string | undefined => {
  const code = property(error, "code")
  if (typeof code === "string") return code
  const cause = property(error, "cause")
  return cause === undefined || depth > 4 ? undefined : codeIn(cause, depth + 1)
}

const unanswered = (error: unknown): NotExecuted | Unknown => {
  const code = codeIn(error) ?? "connection failed"
  return neverConnected.has(code)
    ? new NotExecuted({ dependency: "tracker", reason: code })
    : new Unknown({ dependency: "tracker", reason: code })
}
