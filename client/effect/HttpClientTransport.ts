/** Sends requests with the program's own `HttpClient`, which serves the core as its `fetch`. */
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type { HttpMethod } from "@effect/platform/HttpMethod"
import * as Effect from "effect/Effect"
import * as Runtime from "effect/Runtime"
import * as Stream from "effect/Stream"
import { type Fetch, makeSend, type Send } from "../Transport.ts"

export const sendWith = (client: HttpClient.HttpClient, runtime: Runtime.Runtime<never>): Send => {
  // The tracer would add `b3`, which the service's CORS does not allow.
  const untraced = HttpClient.withTracerDisabledWhen(client, () => true)
  const fetch: Fetch = async (url, { body, headers, method = "GET", signal, ...init } = {}) => {
    const plain = HttpClientRequest.make(method as HttpMethod)(url, { headers: headers as never })
    const request =
      typeof body === "string" ? HttpClientRequest.bodyText(plain, body, "application/json") : plain
    const exchange = untraced
      .execute(request)
      .pipe(Effect.provideService(FetchHttpClient.RequestInit, init), Effect.either)
    const answer = await Runtime.runPromise(runtime)(exchange, signal ? { signal } : {})
    if (answer._tag === "Left") return Promise.reject(answer.left.cause)
    const { headers: received, status, stream } = answer.right
    // An answer without a body has no stream.
    const whole = Stream.catchAll(stream, (error) =>
      error.reason === "EmptyBody" ? Stream.empty : Stream.fail(error)
    )
    // The parts of a response that the core reads.
    const parts = {
      status,
      headers: Object.entries(received),
      body: Stream.toReadableStreamRuntime(whole, runtime)
    }
    return parts as unknown as Response
  }
  return makeSend(fetch)
}
