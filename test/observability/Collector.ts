/** An OpenTelemetry collector on loopback that records its requests; OTLP as JSON. */
import * as Effect from "effect/Effect"
import { rawServer } from "../layers/upstream/Simulated.ts"

type Attributes = ReadonlyArray<{
  readonly key: string
  readonly value: Readonly<Record<string, string | number | boolean>>
}>

export interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  /** 1 internal, 2 server, 3 client. */
  readonly kind: number
  readonly status: { readonly code: number }
  readonly attributes: Attributes
}

interface Traces {
  readonly resourceSpans: ReadonlyArray<{
    readonly resource: { readonly attributes: Attributes }
    readonly scopeSpans: ReadonlyArray<{ readonly spans: ReadonlyArray<Span> }>
  }>
}

export const attributesOf = (attributes: Attributes): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    attributes.map(({ key, value: { intValue, ...others } }) => [
      key,
      intValue === undefined ? Object.values(others)[0] : Number(intValue)
    ])
  )

export const startCollector = () => {
  const received: Array<string> = []
  const server = rawServer(async (request, response) => {
    received.push(Buffer.concat(await request.toArray()).toString())
    response.writeHead(200, { "content-type": "application/json" }).end("{}")
  })
  return Effect.map(server, ({ url }) => ({ url, received }))
}

const resourcesIn = (received: ReadonlyArray<string>) =>
  received.flatMap((body) => (JSON.parse(body) as Traces).resourceSpans)

export const spansIn = (received: ReadonlyArray<string>): ReadonlyArray<Span> =>
  resourcesIn(received).flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans))

export const resourceIn = (received: ReadonlyArray<string>) =>
  attributesOf(resourcesIn(received)[0]?.resource.attributes ?? [])
