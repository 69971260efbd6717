/** An OpenTelemetry collector on loopback that records its requests; OTLP as JSON. */
import type { IncomingHttpHeaders } from "node:http"
import * as Effect from "effect/Effect"
import { rawServer } from "../layers/upstream/Simulated.ts"

interface Value {
  readonly stringValue?: string
  readonly intValue?: string | number
  readonly doubleValue?: number
  readonly boolValue?: boolean
}
interface KeyValue {
  readonly key: string
  readonly value: Value
}

export interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  /** 1 internal, 2 server, 3 client. */
  readonly kind: number
  readonly status: { readonly code: number }
  readonly attributes: ReadonlyArray<KeyValue>
}

interface Traces {
  readonly resourceSpans: ReadonlyArray<{
    readonly resource: { readonly attributes: ReadonlyArray<KeyValue> }
    readonly scopeSpans: ReadonlyArray<{ readonly spans: ReadonlyArray<Span> }>
  }>
}

export interface Received {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

export const attributesOf = (attributes: ReadonlyArray<KeyValue>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    attributes.map(({ key, value }) => [
      key,
      value.stringValue ?? value.boolValue ?? Number(value.intValue ?? value.doubleValue)
    ])
  )

export const startCollector = () =>
  Effect.suspend(() => {
    const received: Array<Received> = []
    const server = rawServer((request, response) => {
      const chunks: Array<Buffer> = []
      request.on("data", (chunk: Buffer) => chunks.push(chunk))
      request.on("end", () => {
        received.push({ path: request.url ?? "", headers: request.headers, body: Buffer.concat(chunks) })
        response.writeHead(200, { "content-type": "application/json" }).end("{}")
      })
    })
    return Effect.map(server, ({ url }) => ({ url, received }))
  })

const tracesIn = (received: ReadonlyArray<Received>): ReadonlyArray<Traces> =>
  received
    .filter(({ path }) => path === "/v1/traces")
    .map(({ body }): Traces => JSON.parse(body.toString("utf8")))

export const spansIn = (received: ReadonlyArray<Received>): ReadonlyArray<Span> =>
  tracesIn(received).flatMap(({ resourceSpans }) =>
    resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans))
  )

export const resourceIn = (received: ReadonlyArray<Received>) =>
  attributesOf(tracesIn(received)[0]?.resourceSpans[0]?.resource.attributes ?? [])
