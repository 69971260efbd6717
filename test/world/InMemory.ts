/** Without sockets: a request to the service, a call to a simulated upstream, and a console that hands on what it is given. */
import type { RequestListener } from "node:http"
import * as HttpClient from "@effect/platform/HttpClient"
import { type HttpClientError, RequestError } from "@effect/platform/HttpClientError"
import * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import { type Console, Effect } from "effect"
import { inject } from "light-my-request"
import { encodeReply, type Reply, type Seen } from "../../sandbox/upstreams/Simulator.ts"
import { NotConnected } from "../../src/layers/upstream/Connections.ts"
import type { Answer, Sent } from "./Driver.ts"

/** Node's `complete` says that the whole request has arrived, which the library's requests do not say. */
const completing =
  (listener: RequestListener): RequestListener =>
  (message, response) => {
    Object.defineProperty(message, "complete", { get: () => message.readableEnded })
    listener(message, response)
  }

/** Sends a request as a client with this address. */
export type SendFrom = (address: string, request: Sent) => Promise<Answer>

export const inMemory =
  (listener: RequestListener): SendFrom =>
  async (address, { body, headers, method, path }) => {
    const answer = await inject(completing(listener), {
      // The library's names of methods; any text is sent.
      method: (method ?? (body === undefined ? "GET" : "POST")) as "GET",
      url: path,
      remoteAddress: address,
      headers: { host: "127.0.0.1", ...headers },
      ...(body === undefined ? {} : { payload: body })
    })
    const received = Object.entries(answer.headers).map(([name, value]) => [name, String(value)])
    return { status: answer.statusCode, headers: Object.fromEntries(received), text: answer.payload }
  }

type Headers = Readonly<Record<string, string>>

/** A call to an upstream. */
export interface Outgoing {
  readonly method: string
  readonly url: URL
  readonly headers: Headers
  readonly body: string | Uint8Array | undefined
}

/** The same as a simulator sees it. */
export const seenAt = (at: number, { body, headers, method, url }: Outgoing): Seen => ({
  at,
  method,
  path: url.pathname,
  query: url.searchParams,
  headers: new Map(Object.entries(headers).map(([name, value]) => [name, [value]])),
  body: Buffer.from(body ?? ""),
  status: undefined
})

/** How a call ends. `code` is the system's error code, such as `ECONNRESET`. */
export type Ending =
  | {
      readonly _tag: "Answered"
      readonly status: number
      readonly headers: Readonly<Record<string, string>>
      readonly body: Uint8Array
    }
  /** No connection was made, so that no byte was sent. */
  | { readonly _tag: "NotSent"; readonly code: string }
  /** The connection is lost before the answer, or within it. */
  | { readonly _tag: "Lost"; readonly code: string; readonly withinAnswer: boolean }

/** The answer of a simulator as the service gets it. */
export const answered = (reply: Reply, date: number, more: Headers): Ending => {
  const { body, headers } = encodeReply(reply, { date: new Date(date).toUTCString(), ...more })
  const received = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])
  return { _tag: "Answered", status: reply.status, headers: Object.fromEntries(received), body }
}

const systemError = (code: string) => Object.assign(new Error(code), { code })

const brokenBody = (code: string) =>
  new ReadableStream({ start: (controller) => controller.error(systemError(code)) })

/** The client of the service for calls that end as `respond` says, or never. */
export const clientOf = (respond: (call: Outgoing) => Effect.Effect<Ending>): HttpClient.HttpClient =>
  HttpClient.make((request, url) => {
    const { body: sent, headers, method } = request
    const call = { method, url, headers, body: sent._tag === "Uint8Array" ? sent.body : undefined }
    const fail = (cause: Error) => Effect.fail(new RequestError({ request, reason: "Transport", cause }))
    const answer = (body: Uint8Array | ReadableStream | null, init: ResponseInit) =>
      Effect.sync(() => HttpClientResponse.fromWeb(request, new Response(body, init)))
    return Effect.flatMap(
      respond(call),
      (ending): Effect.Effect<HttpClientResponse.HttpClientResponse, HttpClientError> => {
        switch (ending._tag) {
          case "Answered":
            return answer(ending.body.length === 0 ? null : ending.body, ending)
          case "NotSent":
            return fail(new NotConnected(ending.code))
          case "Lost":
            return ending.withinAnswer
              ? answer(brokenBody(ending.code), { status: 200 })
              : fail(systemError(ending.code))
        }
      }
    )
  })

/** Receives the lines of the log. */
export const consoleInto = (write: (line: string) => void): Console.Console => {
  const read = (...values: ReadonlyArray<unknown>) => {
    for (const line of values.map(String).join(" ").split("\n")) write(line)
  }
  const reading = (...values: ReadonlyArray<unknown>) => Effect.sync(() => read(...values))
  const plain = Effect.runSync(Effect.console)
  const loud = ["debug", "error", "info", "log", "trace", "warn"] as const
  return {
    ...plain,
    ...Object.fromEntries(loud.map((name) => [name, reading])),
    unsafe: { ...plain.unsafe, ...Object.fromEntries(loud.map((name) => [name, read])) }
  }
}
