/** Without sockets: a request to the service, a call to a simulated upstream, and a console that hands on what it is given. */
import type { RequestListener } from "node:http"
import type * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import { inject } from "light-my-request"
import { encodeReply, type Now, type Reply, type Seen } from "../../sandbox/upstreams/Simulator.ts"
import type { OutgoingRequest, Send } from "../../src/layers/upstream/UpstreamTransport.ts"
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

type Outgoing = Omit<OutgoingRequest, "maxResponseBytes" | "deadlineAt">

/** A call of the service to an upstream, as a simulator sees it. */
export const seenAt = (at: number, { body, headers, method, origin, path }: Outgoing): Seen => {
  const { pathname, searchParams } = new URL(path, origin)
  return {
    at,
    method,
    path: pathname,
    query: searchParams,
    headers: new Map(Object.entries(headers).map(([name, value]) => [name, [value]])),
    body: Buffer.from(body ?? ""),
    status: undefined
  }
}

type Headers = Readonly<Record<string, string>>

/** The answer of a simulator as the service gets it. */
export const answered = (reply: Reply, date: number, more: Headers) => {
  const { body, headers } = encodeReply(reply, { date: new Date(date).toUTCString(), ...more })
  const received = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])
  return { _tag: "Answered", status: reply.status, headers: Object.fromEntries(received), body } as const
}

/** Sends calls to one simulator, without faults and without waiting. */
export const sendInMemory =
  (now: Now, handle: (call: Seen) => Reply | Promise<Reply>, decorate: (call: Seen) => Headers): Send =>
  (request, settle) => {
    const seen = seenAt(now(), request)
    const reply = handle(seen)
    const end = (given: Reply) => settle(answered(given, seen.at, decorate(seen)))
    if (reply instanceof Promise) void reply.then(end)
    else end(reply)
    return () => undefined
  }

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
