/** The routes of the console: its page, the stream of events and the actions. */
import type { IncomingMessage, ServerResponse } from "node:http"
import * as Effect from "effect/Effect"
import type { PageAssets } from "../ConsolePage.ts"
import { ActionSchema } from "./ActionSchema.ts"
import type { Perform } from "./Actions.ts"
import type { EventStream } from "./EventStream.ts"
import type { Refused } from "./Refused.ts"
import { bodyLimit, decodeBody } from "./RequestBody.ts"

/** A complete answer; an object is sent as JSON. */
export interface Content {
  readonly status: number
  readonly type: string
  readonly body: string
}

export const json = (status: number, value: unknown): Content => ({
  status,
  type: "application/json",
  body: JSON.stringify(value)
})

export interface Route {
  readonly method: "GET" | "POST"
  readonly path: string
  /** Largest body, bytes. */
  readonly limit: number
  /** `undefined`: the route answers itself. */
  readonly answer: (
    body: Buffer,
    exchange: { readonly request: IncomingMessage; readonly response: ServerResponse }
  ) => Effect.Effect<Content | undefined, Refused>
}

const shell = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>music-backend sandbox</title>
<link rel="stylesheet" href="/console.css">
<script src="/console.js" defer></script>
</head>
<body><noscript>The sandbox console needs JavaScript. The terminal shows curl lines to paste instead.</noscript></body>
</html>
`

const get = (path: string, type: string, body: string): Route => ({
  method: "GET",
  path,
  limit: 0,
  answer: () => Effect.succeed({ status: 200, type, body })
})

export const pageRoutes = ({ script, style }: PageAssets): ReadonlyArray<Route> => [
  get("/", "text/html; charset=utf-8", shell),
  get("/console.js", "text/javascript; charset=utf-8", script),
  get("/console.css", "text/css; charset=utf-8", style)
]

export const actionRoutes = (perform: Perform, events: EventStream): ReadonlyArray<Route> => [
  {
    method: "GET",
    path: "/events",
    limit: 0,
    answer: (_, { response }) =>
      Effect.sync(() =>
        events.open(response)
          ? undefined
          : json(503, { message: "Too many tabs are open", hint: "close some, and reload this one" })
      )
  },
  {
    method: "POST",
    path: "/actions",
    limit: bodyLimit,
    answer: (body) =>
      decodeBody(ActionSchema, body).pipe(
        Effect.flatMap(perform),
        Effect.map((record) => json(200, record))
      )
  }
]

/** Where the service sends its spans, as OTLP in JSON. */
export const tracesPath = "/v1/traces"

/** Bytes of a batch of spans: larger than any that the service sends. */
const spansLimit = 16 * 1_048_576

export const spansRoute = (read: (body: Buffer) => void): Route => ({
  method: "POST",
  path: tracesPath,
  limit: spansLimit,
  answer: (body) =>
    Effect.sync(() => {
      read(body)
      return json(200, {})
    })
})
