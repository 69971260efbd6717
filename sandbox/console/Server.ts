/**
 * The console as a server on loopback. It listens before the service starts, so that its address is known, and ends after it. Only programs
 * of this machine and the console's own page may use it: it mints sessions, so that pages of other sites must not reach it, also not under a
 * name of their own that leads here (DNS rebinding).
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import * as Effect from "effect/Effect"
import * as FiberSet from "effect/FiberSet"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { PageAssets } from "../ConsolePage.ts"
import { parseJson } from "../upstreams/Contract.ts"
import type { Perform } from "./Actions.ts"
import { ActionSchema } from "./ActionSchema.ts"
import type { EventStream } from "./EventStream.ts"
import type { Refusal } from "./Protocol.ts"
import { Refused } from "./Refused.ts"

type Handler = (request: IncomingMessage, response: ServerResponse) => Effect.Effect<void>

export interface LoopbackServer {
  /** Without a trailing slash. */
  readonly url: string
  /** Answers all requests from now on. */
  readonly answerWith: (handler: Handler) => void
}

const host = "127.0.0.1"

const unready: Handler = (_, response) =>
  Effect.sync(() => response.writeHead(503, { "retry-after": "1" }).end())

/** On this port, or on any free one. Connections end with the scope. */
export const listenOnLoopback = (wanted: number): Effect.Effect<LoopbackServer, never, Scope.Scope> =>
  Effect.gen(function* () {
    let handler = unready
    const run = yield* FiberSet.makeRuntime<never>()
    const server = yield* Effect.acquireRelease(
      Effect.sync(() => createServer((request, response) => void run(handler(request, response)))),
      (opened) =>
        Effect.async<void>((resume) => {
          opened.close(() => resume(Effect.void))
          opened.closeAllConnections()
        })
    )
    const listenOn = (port: number) =>
      Effect.async<number, Error>((resume) => {
        server.once("error", (error) => resume(Effect.fail(error)))
        server.listen(port, host, () => {
          server.removeAllListeners("error")
          // A listener on a port of this machine has an address of this form.
          resume(Effect.succeed((server.address() as AddressInfo).port))
        })
      })
    const port = yield* listenOn(wanted).pipe(
      Effect.orElse(() => listenOn(0)),
      Effect.orDie
    )
    return {
      url: `http://${host}:${port}`,
      answerWith: (next) => {
        handler = next
      }
    }
  })

const securityHeaders = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cache-control": "no-store"
} as const

/** A complete answer. */
interface Content {
  readonly status: number
  readonly type: string
  readonly body: string
  readonly headers?: Readonly<Record<string, string>>
}

const json = (status: number, value: unknown): Content => ({
  status,
  type: "application/json",
  body: JSON.stringify(value)
})

const refusal = (status: number, message: string, hint: string): Content =>
  json(status, { message, hint } satisfies Refusal)

/** The refusal of a request that is not for this console; `undefined` admits it. */
const checkRequest = ({ headers, method }: IncomingMessage, own: string): Content | undefined => {
  const { port } = new URL(own)
  const authorities = [`${host}:${port}`, `localhost:${port}`]
  const { origin } = headers
  if (!authorities.includes(headers.host ?? ""))
    return refusal(403, "The console has another name", `open ${own}`)
  if (origin !== undefined && !authorities.some((authority) => origin === `http://${authority}`))
    return refusal(403, "Pages of other sites may not use the console", `open ${own}`)
  // Without the type of JSON a page could send it unasked.
  if (method === "POST" && !/^application\/json\s*(?:;|$)/i.test(headers["content-type"] ?? ""))
    return refusal(415, "The body is not declared as JSON", "send Content-Type: application/json")
  return undefined
}

/** Largest body of a page, bytes. */
const bodyLimit = 1_048_576

/** The whole body; `undefined` when it is too large, without its rest. Interrupts when the caller goes away. */
const readBody = (request: IncomingMessage): Effect.Effect<Buffer | undefined> =>
  Effect.async((resume) => {
    const chunks: Array<Buffer> = []
    let size = 0
    request.on("data", (chunk: Buffer) => {
      size += chunk.length
      if (size <= bodyLimit) return void chunks.push(chunk)
      request.pause()
      resume(Effect.succeed(undefined))
    })
    request.once("end", () => resume(Effect.succeed(Buffer.concat(chunks))))
    request.once("error", () => resume(Effect.interrupt))
  })

const decodeAction = (body: Buffer) => {
  const value = parseJson(body)
  if (value === undefined)
    return Effect.fail(new Refused({ message: "The body is not JSON", hint: "send one JSON object" }))
  return Effect.mapError(
    Schema.decodeUnknown(ActionSchema)(value, { onExcessProperty: "error" }),
    (error) => {
      const [first] = ParseResult.ArrayFormatter.formatErrorSync(error)
      const message = [first?.path.join("."), first?.message].filter(Boolean).join(": ")
      return new Refused({ message, hint: "correct the field that is named, and send it again" })
    }
  )
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

const send = (response: ServerResponse, { body, headers, status, type }: Content): void => {
  const own = { "content-type": type, "content-length": Buffer.byteLength(body) }
  response.writeHead(status, { ...own, ...headers }).end(body)
}

interface Parts {
  /** The address of the console. */
  readonly own: string
  readonly page: PageAssets
  readonly perform: Perform
  readonly events: EventStream
}

/** Answers a request of the console: who asks, the route, the answer. */
export const makeHandler = ({ events, own, page, perform }: Parts): Handler => {
  const text = (type: string, body: string) => () =>
    Effect.succeed<Content>({ status: 200, type: `text/${type}; charset=utf-8`, body })

  const act = (request: IncomingMessage): Effect.Effect<Content> =>
    Effect.flatMap(readBody(request), (body) =>
      body === undefined
        ? Effect.succeed<Content>({
            ...refusal(413, "The body is too large", `send at most ${bodyLimit} bytes`),
            headers: { connection: "close" }
          })
        : decodeAction(body).pipe(
            Effect.flatMap(perform),
            Effect.map((record) => json(200, record)),
            Effect.catchAll(({ hint, message }) => Effect.succeed(refusal(400, message, hint)))
          )
    )

  const open = (_: IncomingMessage, response: ServerResponse) =>
    Effect.sync(() =>
      events.open(response)
        ? undefined
        : refusal(503, "Too many tabs are open", "close some, and reload this one")
    )

  type Route = (request: IncomingMessage, response: ServerResponse) => Effect.Effect<Content | undefined>
  const routes: Readonly<Record<string, readonly [method: "GET" | "POST", answer: Route]>> = {
    "/": ["GET", text("html", shell)],
    "/console.js": ["GET", text("javascript", page.script)],
    "/console.css": ["GET", text("css", page.style)],
    "/events": ["GET", open],
    "/actions": ["POST", act]
  }

  const answer: Route = (request, response) => {
    const denial = checkRequest(request, own)
    if (denial !== undefined) return Effect.succeed(denial)
    const [path = ""] = (request.url ?? "").split("?")
    const route = Object.hasOwn(routes, path) ? routes[path] : undefined
    if (route === undefined) return Effect.succeed(refusal(404, "There is no such path", `open ${own}`))
    const [allow, run] = route
    return request.method === allow
      ? run(request, response)
      : Effect.succeed({
          ...refusal(405, `${request.method} is not allowed here`, `use ${allow}`),
          headers: { allow }
        })
  }

  return (request, response) => {
    for (const [name, value] of Object.entries(securityHeaders)) response.setHeader(name, value)
    return answer(request, response).pipe(
      Effect.catchAllDefect((defect) =>
        Effect.succeed(refusal(500, String(defect), "this is a mistake of the sandbox: report it"))
      ),
      Effect.map((content) => {
        if (content !== undefined && !response.headersSent) send(response, content)
        return undefined
      })
    )
  }
}
