/** Sends requests with the program's own `HttpClient`. */
import {
  answerBytes,
  broken,
  type BrokenExchange,
  requestInit,
  type Transport,
  type WireHead
} from "../Transport.ts"
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as HttpClient from "@effect/platform/HttpClient"
import type { ResponseError } from "@effect/platform/HttpClientError"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type { HttpMethod } from "@effect/platform/HttpMethod"
import * as Effect from "effect/Effect"
import * as Runtime from "effect/Runtime"
import * as Stream from "effect/Stream"

/** Adds chunks up to the bound. */
const collect = (body: Stream.Stream<Uint8Array, ResponseError>, head: WireHead) =>
  Effect.suspend(() => {
    const decoder = new TextDecoder()
    let text = ""
    let bytes = 0
    const brokenOff = (cause: unknown, facts: Partial<BrokenExchange> = {}) =>
      broken(cause, { answer: { ...head, body: text }, ...facts })
    return body.pipe(
      // An answer without a body has no stream.
      Stream.catchAll((error) =>
        error.reason === "EmptyBody" ? Stream.empty : Stream.fail(brokenOff(error.cause))
      ),
      Stream.runForEach((chunk) => {
        bytes += chunk.byteLength
        text += decoder.decode(chunk, { stream: true })
        return bytes > answerBytes ? Effect.fail(brokenOff(undefined, { tooLarge: true })) : Effect.void
      }),
      Effect.map(() => text + decoder.decode())
    )
  })

export const httpClientTransport = (
  client: HttpClient.HttpClient,
  runtime: Runtime.Runtime<never>
): Transport => {
  // The tracer would add `b3`, which the service's CORS does not allow.
  const untraced = HttpClient.withTracerDisabledWhen(client, () => true)
  const run = Runtime.runPromise(runtime)
  return {
    send: ({ body, headers, keepalive, method, url }, signal) => {
      const exchange = Effect.gen(function* () {
        const plain = HttpClientRequest.make(method as HttpMethod)(url).pipe(
          HttpClientRequest.setHeaders(headers)
        )
        const request =
          body === undefined
            ? plain
            : HttpClientRequest.bodyText(plain, body, headers["content-type"] ?? "application/json")
        const response = yield* Effect.mapError(untraced.execute(request), ({ cause }) => broken(cause))
        const head = { status: response.status, headers: response.headers }
        return { ...head, body: yield* collect(response.stream, head) }
      }).pipe(
        Effect.provideService(FetchHttpClient.RequestInit, {
          ...requestInit,
          ...(keepalive ? { keepalive } : {})
        }),
        Effect.catchAll(Effect.succeed)
      )
      return run(exchange, { signal })
    }
  }
}
