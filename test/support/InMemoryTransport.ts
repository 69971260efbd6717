/** Sends calls to a simulated upstream in memory: no socket, no waiting. */
import type { InMemoryIam } from "../../sandbox/upstreams/Iam.ts"
import { encodeReply, type Now, type Seen } from "../../sandbox/upstreams/Simulator.ts"
import type { OutgoingRequest, Send } from "../../src/layers/upstream/UpstreamTransport.ts"

/** A request as a simulator sees it. */
export const seenAt = (at: number, { body, headers, method, origin, path }: OutgoingRequest): Seen => {
  const { pathname, searchParams } = new URL(path, origin)
  return {
    at,
    method,
    path: pathname,
    query: searchParams,
    headers: new Map(Object.entries(headers).map(([name, value]) => [name, [value]])),
    body: Buffer.from(body ?? []),
    status: undefined
  }
}

export const sendInMemory =
  (now: Now, { decorate, handle }: Pick<InMemoryIam, "handle" | "decorate">): Send =>
  (request, settle) => {
    const seen = seenAt(now(), request)
    const reply = handle(seen)
    const { body, headers } = encodeReply(reply, {
      date: new Date(seen.at).toUTCString(),
      ...decorate(seen)
    })
    settle({
      _tag: "Answered",
      status: reply.status,
      headers: Object.fromEntries(
        Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])
      ),
      body
    })
    return () => {}
  }
