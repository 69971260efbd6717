/**
 * One HTTP request to another system: sent once, bounded in time and bytes. Every response is a success here; a failure
 * means that no complete response came. No body and no credential reaches a log or a span.
 */
import * as Headers from "@effect/platform/Headers"
import type * as HttpBody from "@effect/platform/HttpBody"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import { version } from "../../schema/Release.ts"
import { type Dependency, NotExecuted, Unknown } from "../../services/UpstreamFailure.ts"
import { recordResponseStatus, traceHeaders } from "./CallMetrics.ts"
import { neverSent, transportCode } from "./Connection.ts"
import type { UpstreamResponse } from "./UpstreamResponse.ts"

/** Credentials beside those that the platform redacts by itself; lower case, as spans name headers. */
export const sensitiveHeaders: ReadonlyArray<string> = [
  "x-testing-environment-key",
  "x-testing-application",
  "iam_test_app_secret",
  "x-obo-signature",
  "x-silicon-iam-signature",
  "idempotency-key"
]

export interface UpstreamTarget {
  readonly dependency: Dependency
  /** Without a trailing slash; a path prefix is kept. */
  readonly url: string
  /** For one request, up to the last byte of its response. */
  readonly timeoutSeconds: number
  /** Bytes of a response body. */
  readonly maxResponseBytes: number
  /** The `Accept` header; `application/json` if absent. */
  readonly accept?: string
  /** URL to which the same request is sent once more. Without it no redirect is followed. */
  readonly redirectTo?: (response: UpstreamResponse) => string | undefined
}

export interface UpstreamRequest {
  readonly method: "GET" | "POST" | "PATCH"
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  readonly headers: Readonly<Record<string, string | Redacted.Redacted>>
  readonly body?: HttpBody.HttpBody
}

/** `NotExecuted` when the connection was never made, otherwise `Unknown`. */
export type SendRequest = (request: UpstreamRequest) => Effect.Effect<UpstreamResponse, NotExecuted | Unknown>

const toClientRequest = (
  url: string,
  { body, headers, method, query }: UpstreamRequest,
  accept: string,
  trace: Readonly<Record<string, string>>
): HttpClientRequest.HttpClientRequest =>
  HttpClientRequest.make(method)(url, {
    headers: {
      ...trace,
      "user-agent": `music-backend/${version}`,
      accept,
      ...Object.fromEntries(
        Object.entries(headers).map(([name, value]) => [
          name,
          Redacted.isRedacted(value) ? Redacted.value(value) : value
        ])
      )
    },
    ...(query === undefined ? {} : { urlParams: query }),
    ...(body === undefined ? {} : { body })
  })

const noChunks = (): { readonly chunks: Array<Uint8Array>; readonly size: number } => ({
  chunks: [],
  size: 0
})

export const makeSendRequest = (client: HttpClient.HttpClient, target: UpstreamTarget): SendRequest => {
  const { accept = "application/json", dependency, maxResponseBytes, redirectTo, timeoutSeconds } = target
  // The scope aborts a response that is not read to its end. The library's own span would hold every header.
  const scoped = HttpClient.withTracerDisabledWhen(HttpClient.withScope(client), () => true)
  const unknown = (reason: string) => new Unknown({ dependency, reason })
  const tooLarge = () => unknown(`answered more than ${maxResponseBytes} bytes`)

  const readBody = (response: HttpClientResponse.HttpClientResponse) =>
    Number(response.headers["content-length"] ?? 0) > maxResponseBytes
      ? Effect.fail(tooLarge())
      : Stream.runFoldEffect(
          Stream.mapError(response.stream, (error) => unknown(`lost the answer: ${transportCode(error)}`)),
          noChunks(),
          ({ chunks, size }, chunk) => {
            if (size + chunk.length > maxResponseBytes) return Effect.fail(tooLarge())
            chunks.push(chunk)
            return Effect.succeed({ chunks, size: size + chunk.length })
          }
        ).pipe(Effect.map(({ chunks }): Uint8Array => Buffer.concat(chunks)))

  const sendTo = (
    url: string,
    request: UpstreamRequest
  ): Effect.Effect<UpstreamResponse, NotExecuted | Unknown> =>
    Effect.gen(function* () {
      const prepared = toClientRequest(url, request, accept, yield* traceHeaders)
      const response = yield* Effect.mapError(scoped.execute(prepared), (error) =>
        neverSent(error)
          ? new NotExecuted({ dependency, reason: `no connection: ${transportCode(error)}` })
          : unknown(`lost the connection: ${transportCode(error)}`)
      )
      yield* recordResponseStatus(response.status)
      const date = Date.parse(response.headers.date ?? "")
      return {
        status: response.status,
        headers: response.headers,
        date: Number.isNaN(date) ? undefined : date,
        body: yield* readBody(response)
      }
    }).pipe(
      Effect.scoped,
      Effect.timeoutFail({
        duration: Duration.seconds(timeoutSeconds),
        onTimeout: () => unknown(`no answer within ${timeoutSeconds} seconds`)
      }),
      Effect.locallyWith(Headers.currentRedactedNames, (names) => [...names, ...sensitiveHeaders])
    )

  return (request) => {
    const sent = sendTo(`${target.url}${request.path}`, request)
    if (redirectTo === undefined) return sent
    return Effect.flatMap(sent, (response) => {
      const url = redirectTo(response)
      return url === undefined ? Effect.succeed(response) : sendTo(url, request)
    })
  }
}
