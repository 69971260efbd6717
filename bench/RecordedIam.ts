/**
 * A fast front of the simulated IAM: it answers a repeated introspection as the simulator did the first time, and forwards all other
 * calls. The simulator's own checks cost more than the measured servers; under load it would be what is measured.
 */
import { createServer, type IncomingMessage, type OutgoingHttpHeaders, request } from "node:http"
import type { AddressInfo } from "node:net"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { SimulatedUpstreams } from "../sandbox/SimulatedUpstreams.ts"

interface Answer {
  readonly status: number
  readonly headers: OutgoingHttpHeaders
  readonly body: Buffer
}

const introspection = "/api/v1/oauth/introspect"
/** Node writes these itself. */
const ownHeaders: ReadonlyArray<string> = ["connection", "keep-alive", "date", "transfer-encoding"]

const readAll = async (message: IncomingMessage): Promise<Buffer> => {
  const chunks: Array<Buffer> = []
  for await (const chunk of message) chunks.push(chunk)
  return Buffer.concat(chunks)
}

const forward = (iamUrl: string, message: IncomingMessage, body: Buffer): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const { host: _, ...headers } = message.headers
    request(new URL(message.url ?? "/", iamUrl), { method: message.method ?? "GET", headers }, (response) => {
      readAll(response).then(
        (answered) =>
          resolve({
            status: response.statusCode ?? 502,
            headers: Object.fromEntries(
              Object.entries(response.headers).filter(([name]) => !ownHeaders.includes(name))
            ),
            body: answered
          }),
        reject
      )
    })
      .on("error", reject)
      .end(body)
  })

/** The same upstreams, with the front in the place of IAM. */
export const withRecordedIam = (
  world: SimulatedUpstreams
): Effect.Effect<SimulatedUpstreams, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const recorded = new Map<string, Answer>()
      const answer = async (message: IncomingMessage): Promise<Answer> => {
        const body = await readAll(message)
        if (message.url !== introspection) return forward(world.iam.url, message, body)
        const key = body.toString("latin1")
        const known = recorded.get(key)
        if (known !== undefined) return known
        const fresh = await forward(world.iam.url, message, body)
        if (fresh.status === 200) recorded.set(key, fresh)
        return fresh
      }
      const server = createServer((message, response) => {
        answer(message).then(
          ({ body, headers, status }) => {
            response.writeHead(status, headers)
            response.end(body)
          },
          () => response.destroy()
        )
      })
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
      return server
    }),
    (server) =>
      Effect.sync(() => {
        server.close()
        server.closeAllConnections()
      })
  ).pipe(
    Effect.map((server) => {
      // A server that listens on a host has an address with a port.
      const { port } = server.address() as AddressInfo
      return { ...world, iam: { ...world.iam, url: `http://127.0.0.1:${port}` } }
    })
  )
