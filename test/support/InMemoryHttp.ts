/** An HTTP client that calls a simulated upstream in memory: no socket, no waiting. */
import * as HttpClient from "@effect/platform/HttpClient"
import type * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import * as HttpClientResponse from "@effect/platform/HttpClientResponse"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { InMemoryIam } from "../../sandbox/upstreams/Iam.ts"
import { encodeReply, type Now, type Seen } from "../../sandbox/upstreams/Simulator.ts"

const seenAt = (at: number, request: HttpClientRequest.HttpClientRequest, url: URL): Seen => ({
  at,
  method: request.method,
  path: url.pathname,
  query: url.searchParams,
  headers: new Map(Object.entries(request.headers).map(([name, value]) => [name, [value]])),
  body: Buffer.from(request.body._tag === "Uint8Array" ? request.body.body : []),
  status: undefined
})

export const inMemoryClient = (
  now: Now,
  { decorate, handle }: Pick<InMemoryIam, "handle" | "decorate">
): HttpClient.HttpClient =>
  HttpClient.make((request, url) =>
    Effect.sync(() => {
      const seen = seenAt(now(), request, url)
      const reply = handle(seen)
      const { body, headers } = encodeReply(reply, {
        date: new Date(seen.at).toUTCString(),
        ...decorate(seen)
      })
      const response = HttpClientResponse.fromWeb(
        request,
        new Response(null, { status: reply.status, headers })
      )
      // The stream of a web response ends a few iterations of the event loop later, and the test clock does not wait for it.
      const stream = Stream.make(body)
      const inMemory: HttpClientResponse.HttpClientResponse = Object.create(response, {
        stream: { value: stream }
      })
      return inMemory
    })
  )
