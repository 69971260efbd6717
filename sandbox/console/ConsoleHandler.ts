/** Answers a request of the console: the guard, the route, the body, the answer. */
import type { IncomingMessage, ServerResponse } from "node:http"
import * as Effect from "effect/Effect"
import { type Content, json, type Route } from "./ConsoleRoutes.ts"
import type { Refusal } from "./Protocol.ts"
import { readBody } from "./RequestBody.ts"
import { checkRequest } from "./RequestGuard.ts"

const securityHeaders = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cache-control": "no-store"
} as const

const refusal = (status: number, { hint, message }: Refusal): Content => json(status, { message, hint })

const send = (response: ServerResponse, { body, status, type }: Content): void => {
  if (response.headersSent) return
  response.writeHead(status, { "content-type": type, "content-length": Buffer.byteLength(body) }).end(body)
}

/** `own` is the address of the console. */
export const makeHandler =
  (routes: ReadonlyArray<Route>, own: string) =>
  (request: IncomingMessage, response: ServerResponse): Effect.Effect<void> => {
    for (const [name, value] of Object.entries(securityHeaders)) response.setHeader(name, value)
    const [target] = (request.url ?? "").split("?")
    const fitting = routes.filter(({ path }) => path === target)
    const { headers, method = "GET" } = request
    const denial = checkRequest(
      { method, host: headers.host, origin: headers.origin, contentType: headers["content-type"] },
      own
    )
    const end = (content: Content) => Effect.sync(() => send(response, content))
    if (denial !== undefined) return end(refusal(denial.status, denial))
    if (fitting.length === 0)
      return end(refusal(404, { message: "There is no such path", hint: `open ${own}` }))
    const allow = fitting.map((route) => route.method).join(", ")
    if (method === "OPTIONS") {
      response.setHeader("allow", allow)
      return Effect.sync(() => response.writeHead(204).end())
    }
    const route = fitting.find((one) => one.method === method)
    if (route === undefined) {
      response.setHeader("allow", allow)
      return end(refusal(405, { message: `${method} is not allowed here`, hint: `use ${allow}` }))
    }
    return Effect.gen(function* () {
      const body = yield* readBody(request, route.limit)
      if (body === "too large") {
        response.setHeader("connection", "close")
        return send(
          response,
          refusal(413, { message: "The body is too large", hint: `send at most ${route.limit} bytes` })
        )
      }
      const content = yield* route
        .answer(body, { request, response })
        .pipe(Effect.catchAll((refused) => Effect.succeed(refusal(400, refused))))
      if (content !== undefined) send(response, content)
    }).pipe(
      Effect.catchAllDefect((defect) =>
        end(refusal(500, { message: String(defect), hint: "this is a mistake of the sandbox: report it" }))
      )
    )
  }
