/** Answers bytes that never become a request, such as the parser's errors, which arrive on the socket without a response object. */
import type { Server } from "node:http"
import { Socket } from "node:net"
import type { Duplex } from "node:stream"
import { Failure } from "../../schema/Failure.ts"
import { failureOfParser, refuseConnection } from "./UnparsedRequest.ts"
import { peerAddress, toNetwork } from "./ClientAddress.ts"
import type { Connections } from "./Connections.ts"

/** Connections with a request of another framing than this server's: nothing behind it is a request, nor an error to answer. */
export const misframed = new WeakSet<Duplex>()

/**
 * Answers bad syntax, oversized headers, late requests and CONNECT with the envelope and a request id, and reports each answer and the
 * network of its connection. Complete requests before it on the same connection are answered first: the error must not pass for the
 * answer to one of them.
 */
export const answerClientErrors = (
  server: Server,
  connections: Connections,
  report: (failure: Failure, requestId: string, clientNetwork: string) => void
): void => {
  // The parser fails again at every further packet.
  const refused = new WeakSet<Duplex>()
  const refuse = (socket: Duplex, failure: Failure) => {
    refused.add(socket)
    connections.afterAnswers(socket, () => {
      if (!socket.writable) {
        socket.destroy()
        return
      }
      const requestId = refuseConnection(socket, failure)
      report(failure, requestId, socket instanceof Socket ? toNetwork(peerAddress(socket)) : "")
    })
  }
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    if (refused.has(socket) || misframed.has(socket)) return
    if (error.code === "ECONNRESET" || !socket.writable || connections.hasPartialExchange(socket))
      socket.destroy()
    else refuse(socket, failureOfParser(error))
  })
  server.on("connect", (_, socket) => {
    // Node removes its own error listener before it emits `connect`; without one a reset would end the process.
    socket.on("error", () => socket.destroy())
    // Discards what still arrives: unread bytes would turn the close into a reset.
    socket.resume()
    refuse(socket, new Failure("not_found"))
  })
}
