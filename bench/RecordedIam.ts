/**
 * A fast front of the simulated IAM: it answers a repeated introspection as the simulator did the first time, and forwards all other
 * calls. The simulator's own checks cost more than the measured servers; under load it would be what is measured.
 */
import { createServer, type IncomingMessage } from "node:http"
import { text } from "node:stream/consumers"
import * as Effect from "effect/Effect"
import type { SimulatedUpstreams } from "../sandbox/SimulatedUpstreams.ts"
import { listening } from "../test/world/Egress.ts"

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Both sides write these themselves. */
const ownHeaders = ["host", "connection", "keep-alive", "date", "content-length", "transfer-encoding"]
const withoutOwn = (headers: Iterable<readonly [string, unknown]>): Readonly<Record<string, string>> =>
  Object.fromEntries(
    [...headers].flatMap(([name, value]) => (ownHeaders.includes(name) ? [] : [[name, String(value)]]))
  )

const forward = async (iamUrl: string, message: IncomingMessage, body: string): Promise<Answer> => {
  const { headers, method = "GET", url = "/" } = message
  const response = await fetch(new URL(url, iamUrl), {
    method,
    headers: withoutOwn(Object.entries(headers)),
    ...(body === "" ? {} : { body })
  })
  return { status: response.status, headers: withoutOwn(response.headers), body: await response.text() }
}

/** The same upstreams, with the front in the place of IAM. */
export const withRecordedIam = (world: SimulatedUpstreams) => {
  const recorded = new Map<string, Answer>()
  const answer = async (message: IncomingMessage): Promise<Answer> => {
    const body = await text(message)
    const known = message.url === "/api/v1/oauth/introspect" ? recorded.get(body) : undefined
    if (known !== undefined) return known
    const fresh = await forward(world.iam.url, message, body)
    if (fresh.status === 200) recorded.set(body, fresh)
    return fresh
  }
  const server = createServer((message, response) => {
    answer(message).then(
      ({ body, headers, status }) => response.writeHead(status, headers).end(body),
      () => response.destroy()
    )
  })
  return Effect.map(listening(server), (port) => ({
    ...world,
    iam: { ...world.iam, url: `http://127.0.0.1:${port}` }
  }))
}
