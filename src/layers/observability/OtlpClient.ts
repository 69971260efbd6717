/** Parts that both OTLP signals share: resource, serialisation and the HTTP client of the collector. */
import { promisify } from "node:util"
import { gzip } from "node:zlib"
import * as OtlpSerialization from "@effect/opentelemetry/OtlpSerialization"
import * as HttpClient from "@effect/platform/HttpClient"
import type { HttpClientError } from "@effect/platform/HttpClientError"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import type { TimeoutException } from "effect/Cause"
import * as Effect from "effect/Effect"
import { identity } from "effect/Function"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { version } from "../../schema/Release.ts"
import { otlpExports, recordNow } from "../../services/Metrics.ts"
import type { OtlpTarget, SettingsValues } from "../../services/Settings.ts"
import { describeConnectError } from "../upstream/ConnectErrors.ts"
import { errorCode } from "../../services/ErrorCode.ts"

/** Milliseconds for the last batch of a signal when the process ends. */
export const flushMillis = 1_000

/** Batches of one signal in flight. More are dropped: a slow collector must not fill the memory. */
const maxInFlight = 4

/** The resource attributes of this process. */
export const resourceOf = ({
  resource,
  serviceName
}: Pick<SettingsValues["openTelemetry"], "resource" | "serviceName">) => {
  const {
    "service.name": _,
    "service.version": serviceVersion = version,
    ...attributes
  } = Object.fromEntries(resource)
  return { serviceName, serviceVersion, attributes }
}

export const serializationOf: Readonly<
  Record<OtlpTarget["protocol"], Layer.Layer<OtlpSerialization.OtlpSerialization>>
> = { "http/json": OtlpSerialization.layerJson, "http/protobuf": OtlpSerialization.layerProtobuf }

const compress = (request: HttpClientRequest.HttpClientRequest) => {
  const { body } = request
  return body._tag !== "Uint8Array"
    ? Effect.succeed(request)
    : Effect.map(
        Effect.promise(() => promisify(gzip)(body.body)),
        (compressed) =>
          request.pipe(
            HttpClientRequest.bodyUint8Array(compressed, body.contentType),
            HttpClientRequest.setHeader("content-encoding", "gzip")
          )
      )
}

const reasonOf = (error: HttpClientError | TimeoutException): string =>
  error._tag === "RequestError"
    ? describeConnectError(errorCode(error.cause)).reason
    : error._tag === "ResponseError"
      ? `${error.reason}: HTTP ${error.response.status}`
      : "no answer in time"

/** Counts exports, and logs when the collector stops or starts to accept them. */
const makeRecorder = (signal: string) => {
  for (const result of ["ok", "failed"]) recordNow(otlpExports({ signal, result }), 0)
  let failing = false
  return (failure: Option.Option<string>): Effect.Effect<void> =>
    Effect.suspend(() => {
      const failed = Option.isSome(failure)
      recordNow(otlpExports({ signal, result: failed ? "failed" : "ok" }), 1)
      if (failed === failing) return Effect.void
      failing = failed
      return Option.match(failure, {
        onNone: () => Effect.logInfo("The OpenTelemetry collector accepts our batches again", { signal }),
        onSome: (reason) =>
          Effect.logWarning("The OpenTelemetry collector does not accept our batches", { signal, reason })
      })
    })
}

/**
 * A client for one signal: adds the headers, compresses, reads the whole answer, repeats temporary failures, and drops a batch
 * while `maxInFlight` others are under way. A batch that is lost is a defect, because Effect's exporter repeats failures
 * itself; after a defect it drops spans for 60 s.
 */
export const makeOtlpClient = (
  signal: "traces" | "metrics",
  { compression, headers, timeoutMillis }: OtlpTarget
): Effect.Effect<HttpClient.HttpClient.With<never>, never, HttpClient.HttpClient> =>
  Effect.gen(function* () {
    const slots = yield* Effect.makeSemaphore(maxInFlight)
    const record = makeRecorder(signal)
    const lose = (reason: string) =>
      Effect.zipRight(record(Option.some(reason)), Effect.dieMessage(`batch of ${signal} lost: ${reason}`))
    return (yield* HttpClient.HttpClient).pipe(
      HttpClient.mapRequest(
        HttpClientRequest.setHeaders(
          [...headers].map(([name, value]): readonly [string, string] => [name, Redacted.value(value)])
        )
      ),
      compression === "gzip" ? HttpClient.mapRequestEffect(compress) : identity,
      HttpClient.transformResponse((send) =>
        send.pipe(
          // An answer that is not read keeps its connection from being used again.
          Effect.tap(({ stream }) => Stream.runDrain(stream)),
          Effect.flatMap(HttpClientResponse.filterStatusOk),
          Effect.timeout(timeoutMillis)
        )
      ),
      HttpClient.retryTransient(
        Schedule.exponential("250 millis").pipe(Schedule.jittered, Schedule.upTo(timeoutMillis))
      ),
      HttpClient.transformResponse((send) =>
        slots
          .withPermitsIfAvailable(1)(send)
          .pipe(
            Effect.matchEffect({
              onFailure: (error) => lose(reasonOf(error)),
              onSuccess: Option.match({
                onNone: () => lose(`${maxInFlight} batches in flight`),
                onSome: (response) => Effect.as(record(Option.none()), response)
              })
            })
          )
      )
    )
  })
