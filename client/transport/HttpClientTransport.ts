/** Sends requests with the program's own `HttpClient`. */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type { ResponseError } from "@effect/platform/HttpClientError"
import type { HttpMethod } from "@effect/platform/HttpMethod"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { answerBytes, type BrokenExchange, requestInit, type Transport, type WireHead } from "./Transport.ts"

const broken = (cause: unknown, head?: WireHead): BrokenExchange => ({
  head,
  tooLarge: false,
  originRefused: false,
  cause
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

/** Adds chunks up to the bound. */
const collect = (body: Stream.Stream<Uint8Array, ResponseError>, head: WireHead) =>
  Effect.suspend(() => {
    const decoder = new TextDecoder()
    let text = ""
    let bytes = 0
    return body.pipe(
      // An answer without a body has no stream.
      Stream.catchAll((error) =>
        error.reason === "EmptyBody" ? Stream.empty : Stream.fail(broken(error.cause, head))
      ),
      Stream.runForEach((chunk) => {
        bytes += chunk.byteLength
        if (bytes > answerBytes) return Effect.fail({ ...broken(undefined, head), tooLarge: true })
        text += decoder.decode(chunk, { stream: true })
        return Effect.void
      }),
      Effect.map(() => text + decoder.decode())
    )
  })

export const httpClientTransport = (client: HttpClient.HttpClient): Transport => {
  // The tracer would add `b3`, which the service's CORS does not allow.
  const untraced = HttpClient.withTracerDisabledWhen(client, () => true)
  return {
    send: ({ body, headers, keepalive, method, url }) =>
      Effect.gen(function* () {
        const plain = HttpClientRequest.make(method as HttpMethod)(url).pipe(
          HttpClientRequest.setHeaders(headers),
          HttpClientRequest.setHeaders(yield* traceHeaders)
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
        })
      )
  }
}
