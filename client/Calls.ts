/** The service's calls, derived from its contract: the headers that every call has, retries, and failures as data. */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as HttpApiClient from "@effect/platform/HttpApiClient"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import * as Effect from "effect/Effect"
import * as FiberRef from "effect/FiberRef"
import * as Option from "effect/Option"
import type { Failure } from "../src/schema/Failure.ts"
import { ClientApi } from "./ClientApi.ts"
import { attempted, currentSeen, type Raw, type Seen } from "./Attempt.ts"
import type { WireFailure } from "./Failures.ts"
import { randomUuid } from "./IdempotencyKeys.ts"
import type { MusicClientOptions } from "./Options.ts"
import { type OptionsProblem, problemOf } from "./OptionsCheck.ts"
import { type Deadline, retried } from "./Retry.ts"

/**
 * No cookies, no cache, and no redirect is followed: a session goes to the address that was configured and nowhere
 * else. In a page a redirect shows as status 0.
 */
const requestInit = { redirect: "manual", credentials: "omit", cache: "no-store" } as const

const headersOf = (options: MusicClientOptions): Readonly<Record<string, string>> => ({
  accept: "application/json",
  "x-music-source": options.source,
  "x-music-telemetry": options.telemetry ? "on" : "off",
  ...(typeof options.testingKey === "string" ? { "x-testing-environment-key": options.testingKey } : {})
})

/** `traceparent` of the span that the program is in, if it has one (W3C Trace Context). */
const traceHeaders = Effect.map(
  Effect.option(Effect.currentSpan),
  Option.match({
    onNone: () => ({}),
    onSome: ({ sampled, spanId, traceId }) => ({
      traceparent: `00-${traceId}-${spanId}-${sampled ? "01" : "00"}`
    })
  })
)

const ownHeaders = ({ bearer, requestId }: Seen) => ({
  "x-request-id": requestId,
  ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` })
})

const instrumented =
  (options: MusicClientOptions) =>
  (client: HttpClient.HttpClient): HttpClient.HttpClient =>
    client.pipe(
      HttpClient.mapRequestEffect((request) =>
        Effect.gen(function* () {
          const seen = yield* FiberRef.get(currentSeen)
          if (seen !== undefined) seen.sent = true
          return request.pipe(
            HttpClientRequest.setHeaders(headersOf(options)),
            HttpClientRequest.setHeaders(yield* traceHeaders),
            HttpClientRequest.setHeaders(seen === undefined ? {} : ownHeaders(seen))
          )
        })
      ),
      HttpClient.tap((response) =>
        Effect.map(FiberRef.get(currentSeen), (seen) => {
          if (seen !== undefined) seen.answer = { status: response.status, headers: response.headers }
        })
      ),
      // Its own headers (`b3`) are not among those that the service lets pages send.
      HttpClient.withTracerDisabledWhen(() => true)
    )

const derive = (options: MusicClientOptions, baseUrl: string) =>
  HttpApiClient.make(ClientApi, {
    baseUrl: baseUrl.replace(/\/+$/, ""),
    transformClient: instrumented(options)
  })

/** The calls as the contract derives them; only `Calls.run` uses them. */
export type Derived = Effect.Effect.Success<ReturnType<typeof derive>>

export interface CallFacts {
  readonly deadline: Deadline
  /** Access token. */
  readonly bearer?: string
  /** Repeat also what the service itself could not say, under the same key. */
  readonly uncertain?: boolean
  /** May outlive its page. */
  readonly keepalive?: boolean
  /** One attempt only; whoever calls has a rhythm of its own. */
  readonly once?: boolean
}

/** What any call can fail with before and around the service's own failures. */
export type AnyCallFailure = OptionsProblem | WireFailure

export interface Calls {
  /** One call under one request id, with retries inside the deadline. */
  readonly run: <A, E extends Failure | Raw>(
    facts: CallFacts,
    use: (client: Derived) => Effect.Effect<A, E>
  ) => Effect.Effect<A, Extract<E, Failure> | AnyCallFailure>
}

export const makeCalls = (
  options: MusicClientOptions
): Effect.Effect<Calls, never, HttpClient.HttpClient> => {
  const problem = problemOf(options)
  // With a problem nothing is ever sent, so its address may be none.
  return Effect.map(derive(options, problem === undefined ? options.baseUrl : ""), (client) => {
    const attemptMilliseconds = options.attemptMilliseconds ?? 10_000
    const run: Calls["run"] = (facts, use) => {
      if (problem !== undefined) return Effect.fail(problem)
      const init = facts.keepalive === true ? { ...requestInit, keepalive: true } : requestInit
      return Effect.flatMap(randomUuid, (uuid) =>
        retried({ ...facts, attemptMilliseconds }, (milliseconds) =>
          use(client).pipe(
            attempted({ requestId: `${options.source}-${uuid}`, bearer: facts.bearer, milliseconds })
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
