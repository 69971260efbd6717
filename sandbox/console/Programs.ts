/** The calls of other programs: Node publishes each request of the service's listener, and its bytes are read as they pass. */
import { subscribe, unsubscribe } from "node:diagnostics_channel"
import type { IncomingMessage, OutgoingHttpHeaders, Server, ServerResponse } from "node:http"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { liveDocsAgent } from "../LiveDocs.ts"
import type { Sandbox } from "../Run.ts"
import type { ServiceRequest } from "../ServiceClient.ts"
import { planesOf } from "../SimulatedUpstreams.ts"
import type { Journal } from "./Journal.ts"
import type { ProgramCall } from "./Protocol.ts"

const channel = "http.server.request.start"

/** What a program does, by its request. */
const deeds: Readonly<Record<string, ProgramCall["does"]>> = {
  "POST /api/v1/auth/login": "login",
  "GET /api/v1/auth/me": "me",
  "POST /api/v1/auth/refresh": "refresh",
  "POST /api/v1/auth/logout": "logout",
  "POST /api/v1/tings": "ting",
  "POST /api/v1/reports": "report",
  "POST /api/v1/telemetry": "telemetry",
  "POST /webhook/": "webhook"
}

/** What a browser loads by itself, or a person reads. */
const ownPages = ["/docs", "/openapi.json", "/favicon.ico"]

/** Keeps the bytes of a body: more than any that the service takes. */
const makeKeeper = (limit = 8_388_608) => {
  const kept: Array<Buffer> = []
  let left = limit
  return {
    keep: (chunk: unknown): void => {
      if (typeof chunk !== "string" && !(chunk instanceof Uint8Array)) return
      left -= chunk.length
      if (left >= 0) kept.push(Buffer.from(chunk))
    },
    text: (): string => Buffer.concat(kept).toString("utf8")
  }
}

/** Headers of a connection, which `fetch` sets or refuses. */
const ofConnection = /^(?:connection|content-length|expect|host|te|trailer|transfer-encoding|upgrade)$/

/** Such as `curl` of `curl/8.5.0`. */
const agentOf = ({ headers }: IncomingMessage): string => {
  const [name = ""] = (headers["user-agent"] ?? "").split(/[/ ]/)
  return name === "Mozilla" ? "a browser" : name === "" ? "a program" : name
}

const flat = (headers: OutgoingHttpHeaders): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name.toLowerCase(), String(value)]]
    )
  )

/** Puts the calls of other programs at the service into the journal, each in a trace of its own. Ends with the scope. */
export const watchPrograms = (
  { base, clock, world }: Sandbox,
  journal: Journal,
  onChange: () => void
): Effect.Effect<void, never, Scope.Scope> => {
  const { port } = new URL(base)

  const watch = (request: IncomingMessage, response: ServerResponse): void => {
    const { headers, method = "GET", url = "/" } = request
    const agent = agentOf(request)
    const [path = ""] = url.split("?")
    const isPage = !path.startsWith("/") || ownPages.includes(path)
    if (isPage || method === "OPTIONS" || headers["user-agent"] === liveDocsAgent) return
    if (journal.hasTrace(String(headers.traceparent))) return
    const sent = makeKeeper()
    const answered = makeKeeper()
    const key = headers["x-testing-environment-key"]
    // An unknown key selects no plane.
    const plane = planesOf(world).find((known) => known.key === (key ?? null))?.id ?? null
    const does = deeds[`${method} ${path}`] ?? null
    const requestOf = (): ServiceRequest => {
      const body = sent.text()
      const rest = Object.entries(flat(headers)).filter(([name]) => !ofConnection.test(name))
      const whole = body === "" ? undefined : body
      return { method, url: `${base}${url}`, headers: Object.fromEntries(rest), body: whole }
    }
    const entry = journal.begin({
      action: { kind: "program", agent, does },
      title: `${agent}: ${method} ${path}`,
      plane,
      startedAt: clock.now()
    })
    headers.traceparent = journal.traceOf(entry)
    /** Again when its body has arrived: after the answer that refuses it unread. */
    const note = () => journal.send(entry, { from: "console", to: "backend", request: requestOf() })
    note()
    const { push } = request
    const { end, write, writeHead } = response
    let head: OutgoingHttpHeaders = {}
    Object.assign(request, {
      push: (chunk: unknown, ...rest: ReadonlyArray<unknown>) => {
        sent.keep(chunk)
        if (chunk === null) note()
        return Reflect.apply(push, request, [chunk, ...rest])
      }
    })
    Object.assign(response, {
      writeHead: (...given: ReadonlyArray<unknown>) => {
        const last = given.at(-1)
        if (typeof last === "object" && last !== null && !Array.isArray(last)) head = { ...last }
        return Reflect.apply(writeHead, response, given)
      },
      write: (chunk: unknown, ...rest: ReadonlyArray<unknown>) => {
        answered.keep(chunk)
        return Reflect.apply(write, response, [chunk, ...rest])
      },
      end: (chunk: unknown, ...rest: ReadonlyArray<unknown>) => {
        answered.keep(chunk)
        return Reflect.apply(end, response, [chunk, ...rest])
      }
    })
    response.once("close", () => {
      const status = response.writableFinished ? response.statusCode : null
      journal.end(entry, clock.now(), {
        status,
        responseHeaders: flat({ ...response.getHeaders(), ...head }),
        responseBody: status === null ? "the connection was lost before an answer" : answered.text()
      })
      onChange()
    })
  }

  const onStart = (message: unknown): void => {
    const { request, response, server } = message as {
      readonly request: IncomingMessage
      readonly response: ServerResponse
      readonly server: Server
    }
    const address = server.address()
    if (typeof address === "object" && String(address?.port) === port) watch(request, response)
  }

  return Effect.acquireRelease(
    Effect.sync(() => subscribe(channel, onStart)),
    () => Effect.sync(() => unsubscribe(channel, onStart))
  )
}
