/** An OpenTelemetry collector on loopback that records its requests; OTLP as JSON. */
import type { IncomingHttpHeaders } from "node:http"
import * as Effect from "effect/Effect"
import { rawServer } from "../layers/upstream/Simulated.ts"

interface KeyValue {
  readonly key: string
  readonly value: {
    readonly stringValue?: string
    readonly intValue?: string | number
    readonly doubleValue?: number
    readonly boolValue?: boolean
  }
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

interface Received {
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

export const startCollector = () => {
  const received: Array<Received> = []
  const server = rawServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray())
    received.push({ path: request.url ?? "", headers: request.headers, body })
    response.writeHead(200, { "content-type": "application/json" }).end("{}")
  })
  return Effect.map(server, ({ url }) => ({ url, received }))
}

const resourcesIn = (received: ReadonlyArray<Received>) =>
  received
    .filter(({ path }) => path === "/v1/traces")
    .flatMap(({ body }) => (JSON.parse(body.toString("utf8")) as Traces).resourceSpans)

export const spansIn = (received: ReadonlyArray<Received>): ReadonlyArray<Span> =>
  resourcesIn(received).flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans))

export const resourceIn = (received: ReadonlyArray<Received>) =>
  attributesOf(resourcesIn(received)[0]?.resource.attributes ?? [])
