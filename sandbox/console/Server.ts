/**
 * The console as a server on loopback. It listens before the service starts, so that its address is known, and ends after it. Only programs
 * of this machine and the console's own page may use it: it mints sessions, so that pages of other sites must not reach it, also not under a
 * name of their own that leads here (DNS rebinding).
 */
import { createServer, type RequestListener } from "node:http"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Stream from "effect/Stream"
import type { PageAssets } from "../ConsolePage.ts"
import type { Perform } from "./Actions.ts"
import { ActionSchema } from "./ActionSchema.ts"
import type { Events } from "./EventStream.ts"
import type { Refusal } from "./Protocol.ts"
import { Refused } from "./Refused.ts"

export interface LoopbackServer {
  /** Without a trailing slash. */
  readonly url: string
  /** Answers all requests from now on. */
  readonly answerWith: (listener: RequestListener) => void
}

const host = "127.0.0.1"

/** On this port, or on any free one. Connections end with the scope. */
export const listenOnLoopback = (wanted: number) =>
  Effect.gen(function* () {
    let answer: RequestListener = (_, response) => response.writeHead(503, { "retry-after": "1" }).end()
    const listenOn = (port: number) =>
      Effect.gen(function* () {
        const server = createServer((request, response) => answer(request, response))
        const { address } = yield* NodeHttpServer.make(() => server, { host, port })
        yield* Effect.addFinalizer(() => Effect.sync(() => server.close().closeAllConnections()))
        return `http://${host}:${address._tag === "TcpAddress" ? address.port : port}`
      })
    const url = yield* Effect.orDie(Effect.orElse(listenOn(wanted), () => listenOn(0)))
    const listener: LoopbackServer = {
      url,
      answerWith: (next) => {
        answer = next
      }
    }
    return listener
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

const refusal = (status: number, message: string, hint: string) =>
  HttpServerResponse.unsafeJson({ message, hint } satisfies Refusal, { status })

/** Bytes of an action: above its longest texts, and nothing that fills the memory. */
const longestAction = 1_048_576

/** The refusal of a request that is not for this console; `undefined` admits it. */
const denialOf = ({ headers, method }: HttpServerRequest.HttpServerRequest, own: string) => {
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
  // A longer body without a declared length ends its connection.
  if (Number(headers["content-length"] ?? 0) > longestAction)
    return refusal(413, "The action is longer than 1 MiB", "shorten its texts")
  return undefined
}

const readAction = HttpServerRequest.schemaBodyJson(ActionSchema, { onExcessProperty: "error" }).pipe(
  HttpServerRequest.withMaxBodySize(Option.some(longestAction)),
  Effect.catchTags({
    RequestError: () => new Refused({ message: "The body is not JSON", hint: "send one JSON object" }),
    ParseError: (error) => {
      const [first] = ParseResult.ArrayFormatter.formatErrorSync(error)
      const message = [first?.path.join("."), first?.message].filter(Boolean).join(": ")
      return new Refused({ message, hint: "correct the field that is named, and send it again" })
    }
  })
)

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

interface Parts {
  /** The address of the console. */
  readonly own: string
  readonly page: PageAssets
  readonly perform: Perform
  readonly events: Events
}

/** Answers a request of the console: who asks, the route, the answer. */
export const makeListener = ({ events, own, page, perform }: Parts): Effect.Effect<RequestListener> => {
  const text = (type: string, body: string) =>
    HttpServerResponse.text(body, { contentType: `text/${type}; charset=utf-8` })

  const act = Effect.flatMap(readAction, perform).pipe(
    Effect.map((record) => HttpServerResponse.unsafeJson(record)),
    Effect.catchTag("Refused", ({ hint, message }) => Effect.succeed(refusal(400, message, hint)))
  )

  const open = Effect.sync(() =>
    events.isFull()
      ? refusal(503, "Too many tabs are open", "close some, and reload this one")
      : HttpServerResponse.stream(Stream.encodeText(events.stream), { contentType: "text/event-stream" })
  )

  const router = HttpRouter.empty.pipe(
    HttpRouter.get("/", text("html", shell)),
    HttpRouter.get("/console.js", text("javascript", page.script)),
    HttpRouter.get("/console.css", text("css", page.style)),
    HttpRouter.get("/events", open),
    HttpRouter.post("/actions", act),
    Effect.catchTag("RouteNotFound", () =>
      Effect.succeed(refusal(404, "There is no such path", `open ${own}`))
    ),
    Effect.catchAllDefect((defect) =>
      Effect.succeed(refusal(500, String(defect), "this is a mistake of the sandbox: report it"))
    )
  )
  const app = Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
    const denial = denialOf(request, own)
    return denial === undefined ? router : Effect.succeed(denial)
  })
  return Effect.map(NodeHttpServer.makeHandler(app), (answer) => (request, response) => {
    for (const [name, value] of Object.entries(securityHeaders)) response.setHeader(name, value)
    answer(request, response)
  })
}
