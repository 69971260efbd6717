/**
 * One call to another system over HTTP: sent once, never redirected, bounded in time and bytes, and every way in which
 * it can fail typed by outcome (services/Upstream.ts). Nothing of a body or a credential reaches a log or a span.
 */
import * as Headers from "@effect/platform/Headers"
import type * as HttpBody from "@effect/platform/HttpBody"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import type * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import { version } from "../../schema/Release.ts"
import {
  type Dependency,
  NotExecuted,
  Refused,
  Unknown,
  type UpstreamFailure
} from "../../services/UpstreamFailure.ts"
import { type Answer, type Read, readEnvelope, retryAfterSeconds } from "./UpstreamResponse.ts"
import { neverSent, transportCode } from "./Connection.ts"
import { noteStatus, observed, peerOf, traceContext } from "./CallMetrics.ts"

/** Credentials beside those that the platform hides by itself; lower case, as spans name headers. */
export const sensitiveHeaders: ReadonlyArray<string> = [
  "x-testing-environment-key",
  "x-testing-application",
  "iam_test_app_secret",
  "x-obo-signature",
  "x-silicon-iam-signature",
  "idempotency-key"
]

export interface UpstreamOptions {
  readonly dependency: Dependency
  /** Without a trailing slash; a path prefix is kept. */
  readonly url: string
  /** For one call, the answer's last byte included. */
  readonly timeoutSeconds: number
  /** Bytes of an answer's body. */
  readonly largestAnswer: number
  /** Header of an answer that names it, lower case. */
  readonly requestIdHeader: string
  /** Seconds: its contract names no longer pause, so a longer `Retry-After` is not believed. */
  readonly longestPause?: number
  /** Codes with which a 503 says that nothing was done. */
  readonly nothingDone: ReadonlySet<string>
  /** Why the headers of an answer, whatever its status, show that it is not this upstream's. */
  readonly foreign?: (headers: Headers.Headers) => string | undefined
}

export interface Ask<A> {
  /** Our name for it in metrics; one of a few. */
  readonly operation: string
  readonly method: "GET" | "POST"
  readonly path: string
  readonly headers: Readonly<Record<string, string | Redacted.Redacted>>
  readonly body?: HttpBody.HttpBody
  /** Reads a 2xx. */
  readonly read: Read<A>
}

/** Sends once. A refusal is one only in the words of the contract: an unknown 4xx, HTML or a redirect is an unknown outcome. */
export type Upstream = <A>(ask: Ask<A>) => Effect.Effect<A, UpstreamFailure>

const write = (
  url: string,
  ask: Ask<unknown>,
  trace: Readonly<Record<string, string>>
): HttpClientRequest.HttpClientRequest =>
  HttpClientRequest.make(ask.method)(`${url}${ask.path}`, {
    headers: {
      ...trace,
      "user-agent": `music-backend/${version}`,
      accept: "application/json",
      ...Object.fromEntries(
        Object.entries(ask.headers).map(([name, value]) => [
          name,
          Redacted.isRedacted(value) ? Redacted.value(value) : value
        ])
      )
    },
    ...(ask.body === undefined ? {} : { body: ask.body })
  })

const nothing = (): { readonly chunks: Array<Uint8Array>; readonly size: number } => ({ chunks: [], size: 0 })

const requestId = /^[A-Za-z0-9._-]{1,128}$/

export const makeUpstream = (client: HttpClient.HttpClient, options: UpstreamOptions): Upstream => {
  const { dependency } = options
  const peer = peerOf(dependency, options.url)
  // The scope aborts an answer that is not read to its end. The library's own span would hold every header.
  const scoped = HttpClient.withTracerDisabledWhen(HttpClient.withScope(client), () => true)
  const unknown = (reason: string) => new Unknown({ dependency, reason })
  const tooLarge = () => unknown(`answered more than ${options.largestAnswer} bytes`)

  const collect = (response: HttpClientResponse.HttpClientResponse) =>
    Number(response.headers["content-length"] ?? 0) > options.largestAnswer
      ? Effect.fail(tooLarge())
      : Stream.runFoldEffect(
          Stream.mapError(response.stream, (error) => unknown(`lost the answer: ${transportCode(error)}`)),
          nothing(),
          ({ chunks, size }, chunk) => {
            if (size + chunk.length > options.largestAnswer) return Effect.fail(tooLarge())
            chunks.push(chunk)
            return Effect.succeed({ chunks, size: size + chunk.length })
          }
        ).pipe(Effect.map(({ chunks }): Uint8Array => Buffer.concat(chunks)))

  const exchange = (ask: Ask<unknown>): Effect.Effect<Answer, NotExecuted | Unknown> =>
    Effect.gen(function* () {
      const request = write(options.url, ask, yield* traceContext)
      const response = yield* Effect.mapError(scoped.execute(request), (error) =>
        neverSent(error)
          ? new NotExecuted({ dependency, reason: `no connection: ${transportCode(error)}` })
          : unknown(`lost the connection: ${transportCode(error)}`)
      )
      yield* noteStatus(response.status)
      const date = Date.parse(response.headers.date ?? "")
      return {
        status: response.status,
        headers: response.headers,
        date: Number.isNaN(date) ? undefined : date,
        body: yield* collect(response)
      }
    }).pipe(
      Effect.scoped,
      Effect.timeoutFail({
        duration: Duration.seconds(options.timeoutSeconds),
        onTimeout: () => unknown(`no answer within ${options.timeoutSeconds} seconds`)
      })
    )

  const failureOf = (answer: Answer, now: number): UpstreamFailure => {
    const { status } = answer
    const seconds = retryAfterSeconds(answer, now, options.longestPause)
    const after = seconds === undefined ? {} : { retryAfterSeconds: seconds }
    if (status < 400) return unknown(`answered ${status}, which is not its contract`)
    const envelope = readEnvelope(answer)
    const id = [envelope?.request_id, answer.headers[options.requestIdHeader]].find(
      (told) => typeof told === "string" && requestId.test(told)
    )
    const refused = (code: string, told: { readonly retryAfterSeconds?: number }) =>
      new Refused({
        dependency,
        status,
        code,
        ...(id == null ? {} : { requestId: id }),
        ...(answer.date === undefined ? {} : { answeredAt: answer.date }),
        ...told
      })
    if (status === 429) return refused(envelope?.code ?? "rate_limited", { retryAfterSeconds: seconds ?? 1 })
    if (envelope === undefined)
      return new Unknown({ dependency, reason: `answered ${status}, but not in its contract`, ...after })
    if (status < 500) return refused(envelope.code, after)
    const reason = `answered ${status} ${envelope.code}`
    return status === 503 && options.nothingDone.has(envelope.code)
      ? new NotExecuted({ dependency, reason, ...after })
      : new Unknown({ dependency, reason, ...after })
  }

  return <A>(ask: Ask<A>) =>
    Effect.gen(function* () {
      const answer = yield* exchange(ask)
      const foreign = options.foreign?.(answer.headers)
      if (foreign !== undefined) return yield* unknown(foreign)
      if (answer.status < 200 || answer.status > 299)
        return yield* failureOf(answer, yield* Clock.currentTimeMillis)
      return yield* Either.mapLeft(ask.read(answer), (reason) =>
        unknown(`answered ${answer.status}, but the answer ${reason}`)
      )
    }).pipe(
      Effect.tapError((failure) =>
        failure._tag === "Refused"
          ? Effect.logDebug(`${dependency} refused`, {
              path: ask.path,
              status: failure.status,
              code: failure.code
            })
          : Effect.logWarning(`${dependency} gave no answer to go by`, {
              path: ask.path,
              reason: failure.reason
            })
      ),
      Effect.locallyWith(Headers.currentRedactedNames, (names) => [...names, ...sensitiveHeaders]),
      observed({
        peer,
        operation: ask.operation,
        method: ask.method,
        template: ask.path
      })
    )
}
