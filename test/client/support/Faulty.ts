/** A server on loopback, and what happens to its answers on their way. */
import { once } from "node:events"
import { createServer, type IncomingMessage } from "node:http"
import type { AddressInfo } from "node:net"
import { text } from "node:stream/consumers"
import { setTimeout as sleep } from "node:timers/promises"

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** What happens to one answer. The server has acted before, except after `before`. */
export interface Fault extends Partial<Omit<Answer, "body">> {
  readonly before?: true
  /** Ends the connection, also within the body, or leaves it open for ever. */
  readonly instead?: "cut" | "cut within" | "hang"
  /** Replaces the body; gets the right one. */
  readonly body?: (right: string) => string
}

export const startFaulty = async (
  act: (request: IncomingMessage, body: string) => Answer | Promise<Answer>,
  faultOf: (request: IncomingMessage) => Fault | undefined
) => {
  const server = createServer((request, response) => {
    const answer = async () => {
      const sent = await text(request)
      const fault = faultOf(request)
      const right = fault?.before ? { status: 200, headers: {}, body: "{}" } : await act(request, sent)
      if (fault?.instead === "cut within") {
        response.writeHead(right.status, { ...right.headers, "content-length": "5000" })
        response.write(right.body.slice(0, 20))
        await sleep(5)
      }
      if (fault?.instead === "hang") return
      if (fault?.instead !== undefined) throw new Error("cut")
      const body = fault?.body?.(right.body) ?? right.body
      const headers = { ...(fault?.headers ?? right.headers), "content-length": Buffer.byteLength(body) }
      response.writeHead(fault?.status ?? right.status, headers).end(body)
    }
    answer().catch(() => request.socket.destroy())
  }).listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    close: () => {
      server.close()
      server.closeAllConnections()
    }
  }
}
