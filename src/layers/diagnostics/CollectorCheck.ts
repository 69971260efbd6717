/** Checks that the OpenTelemetry collector accepts batches, with an empty one for each signal. */
import type * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import type { OtlpTarget, SettingsValues } from "../../services/Settings.ts"
import { describeConnectError } from "../upstream/ConnectErrors.ts"
import { errorCode } from "../../services/ErrorCode.ts"
import { type Check, callTimeoutSeconds, type Finding, pass, warn } from "./Finding.ts"

/** In protobuf, a message without fields has no bytes. */
const empty = { traces: '{"resourceSpans":[]}', metrics: '{"resourceMetrics":[]}' } as const

const finding = (name: string, origin: string, status: number): Finding => {
  if (status >= 200 && status < 300) return pass(name, `accepted at ${origin}`)
  return status === 401 || status === 403
    ? warn(
        name,
        `the collector at ${origin} refuses them: HTTP ${status}`,
        "correct OTEL_EXPORTER_OTLP_HEADERS"
      )
    : warn(
        name,
        `the service at ${origin} does not accept them: HTTP ${status}`,
        "set OTEL_EXPORTER_OTLP_ENDPOINT to the collector's address for OTLP over HTTP, such as http://127.0.0.1:4318"
      )
}

const checkSignal = (
  client: HttpClient.HttpClient,
  signal: keyof typeof empty,
  { headers, protocol, timeoutMillis, url }: OtlpTarget
): Effect.Effect<Finding> => {
  const { origin } = new URL(url)
  const name = `collector ${signal}`
  const request = HttpClientRequest.post(url).pipe(
    HttpClientRequest.setHeaders(
      [...headers].map(([header, value]): readonly [string, string] => [header, Redacted.value(value)])
    ),
    protocol === "http/json"
      ? HttpClientRequest.bodyText(empty[signal], "application/json")
      : HttpClientRequest.bodyUint8Array(new Uint8Array(), "application/x-protobuf")
  )
  return client.execute(request).pipe(
    Effect.tap(({ stream }) => Stream.runDrain(stream)),
    Effect.timeout(Math.min(timeoutMillis, callTimeoutSeconds * 1_000)),
    Effect.match({
      onSuccess: ({ status }) => finding(name, origin, status),
      onFailure: (error) => {
        const { advice, reason } =
          error._tag === "RequestError"
            ? describeConnectError(errorCode(error.cause))
            : { advice: undefined, reason: "no answer in time" }
        return warn(
          name,
          `no response from the collector at ${origin} (${reason})`,
          advice ??
            "start it, or correct OTEL_EXPORTER_OTLP_ENDPOINT; without it no telemetry is exported, and all else works"
        )
      }
    })
  )
}

/** No findings where nothing is exported. */
export const checkCollector = (
  client: HttpClient.HttpClient,
  { openTelemetry: { metrics, traces } }: Pick<SettingsValues, "openTelemetry">
): Check =>
  Effect.all(
    [
      ...Option.toArray(traces).map((target) => checkSignal(client, "traces", target)),
      ...Option.toArray(metrics).map((target) => checkSignal(client, "metrics", target))
    ],
    { concurrency: "unbounded" }
  )
