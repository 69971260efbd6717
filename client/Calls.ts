/** The service's calls, derived from its contract, with the headers of every call and retries. */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import * as Effect from "effect/Effect"
import * as FiberRef from "effect/FiberRef"
import * as Option from "effect/Option"
import type { Failure } from "../src/schema/Failure.ts"
import { ClientApi } from "./ClientApi.ts"
import { runAttempt, currentExchange, type DerivedClientError, type ExchangeState } from "./Attempt.ts"
import type { WireFailure } from "./Failures.ts"
import { randomUuid } from "./IdempotencyKeys.ts"
import type { MusicClientOptions } from "./Options.ts"
import { type OptionsProblem, findOptionsProblem } from "./OptionsCheck.ts"
import type { Deadline } from "./Deadline.ts"
import { retryUntil } from "./Retry.ts"

/**
 * No cookies, no cache, no redirects: a session is sent to the configured address only. In a browser a redirect has
 * status 0.
 */
const requestInit = { redirect: "manual", credentials: "omit", cache: "no-store" } as const

const headersOf = (options: MusicClientOptions): Readonly<Record<string, string>> => ({
  accept: "application/json",
  "x-music-source": options.source,
  "x-music-telemetry": options.telemetry ? "on" : "off",
  ...(typeof options.testingKey === "string" ? { "x-testing-environment-key": options.testingKey } : {})
})

/** `traceparent` of the current span, if there is one (W3C Trace Context). */
const traceHeaders = Effect.map(
  Effect.option(Effect.currentSpan),
  Option.match({
    onNone: () => ({}),
    onSome: ({ sampled, spanId, traceId }) => ({
      traceparent: `00-${traceId}-${spanId}-${sampled ? "01" : "00"}`
    })
  })
)

const exchangeHeaders = ({ bearer, requestId }: ExchangeState) => ({
  "x-request-id": requestId,
  ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` })
})

const withRequestHeaders =
  (options: MusicClientOptions) =>
  (client: HttpClient.HttpClient): HttpClient.HttpClient =>
    client.pipe(
      HttpClient.mapRequestEffect((request) =>
        Effect.gen(function* () {
          const seen = yield* FiberRef.get(currentExchange)
          if (seen !== undefined) seen.sent = true
          return request.pipe(
            HttpClientRequest.setHeaders(headersOf(options)),
            HttpClientRequest.setHeaders(yield* traceHeaders),
            HttpClientRequest.setHeaders(seen === undefined ? {} : exchangeHeaders(seen))
          )
        })
      ),
      HttpClient.tap((response) =>
        Effect.map(FiberRef.get(currentExchange), (seen) => {
          if (seen !== undefined) seen.answer = { status: response.status, headers: response.headers }
        })
      ),
      // The tracer would add `b3`, which the service's CORS does not allow.
      HttpClient.withTracerDisabledWhen(() => true)
    )

const deriveClient = (options: MusicClientOptions, baseUrl: string) =>
  HttpApiClient.make(ClientApi, {
    baseUrl: baseUrl.replace(/\/+$/, ""),
    transformClient: withRequestHeaders(options)
  })

/** The calls that the contract derives; only `Calls.run` uses them. */
export type DerivedClient = Effect.Effect.Success<ReturnType<typeof deriveClient>>

export interface CallRequest {
  readonly deadline: Deadline
  /** Access token. */
  readonly bearer?: string
  /** Also repeat an `internal` failure, under the same key. */
  readonly uncertain?: boolean
  /** The request may outlive its page. */
  readonly keepalive?: boolean
  /** One attempt only. */
  readonly once?: boolean
}

/** Failures of any call beside the service's own. */
export type AnyCallFailure = OptionsProblem | WireFailure

export interface Calls {
  /** One call under one request id, with retries inside the deadline. */
  readonly run: <A, E extends Failure | DerivedClientError>(
    facts: CallRequest,
    use: (client: DerivedClient) => Effect.Effect<A, E>
  ) => Effect.Effect<A, Extract<E, Failure> | AnyCallFailure>
}

export const makeCalls = (
  options: MusicClientOptions
): Effect.Effect<Calls, never, HttpClient.HttpClient> => {
  const problem = findOptionsProblem(options)
  // With an options problem no call is ever sent.
  return Effect.map(deriveClient(options, problem === undefined ? options.baseUrl : ""), (client) => {
    const attemptMilliseconds = options.attemptMilliseconds ?? 10_000
    const run: Calls["run"] = (facts, use) => {
      if (problem !== undefined) return Effect.fail(problem)
      const init = facts.keepalive === true ? { ...requestInit, keepalive: true } : requestInit
      return Effect.flatMap(randomUuid, (uuid) =>
        retryUntil({ ...facts, attemptMilliseconds }, (milliseconds) =>
          use(client).pipe(
            runAttempt({ requestId: `${options.source}-${uuid}`, bearer: facts.bearer, milliseconds })
          )
        )
      ).pipe(Effect.provideService(FetchHttpClient.RequestInit, init))
    }
    return { run }
  })
}

/** The service's own failures of one call. */
export type FailureOf<Method> = Method extends (
  ...parameters: never
) => Effect.Effect<infer _A, infer E, infer _R>
  ? Extract<E, Failure>
  : never
