/** Tracks what Node does not expose: the open connections, and the unanswered requests on each. */
import type { IncomingMessage, Server, ServerResponse } from "node:http"
import type { Socket } from "node:net"
import type { Duplex } from "node:stream"
import { httpConnections, recordNow } from "../../services/Metrics.ts"

/** Tracks the connections of a server; to be called before it listens. A request counts until it has arrived and its response is closed. */
export const trackConnections = (server: Server) => {
  const open = new Map<Duplex, Set<ServerResponse>>()
  server.on("connection", (socket: Socket) => {
    open.set(socket, new Set())
    recordNow(httpConnections, open.size)
    socket.once("close", () => {
      open.delete(socket)
      recordNow(httpConnections, open.size)
    })
  })
  server.on("request", (message: IncomingMessage, response) => {
    const pending = open.get(message.socket)
    const forget = () => pending?.delete(response)
    pending?.add(response)
    response.once("close", () => (message.complete ? forget() : message.once("end", forget)))
  })

  const pendingOn = (socket: Duplex): ReadonlyArray<ServerResponse> => [...(open.get(socket) ?? [])]

  /** Runs `then` after the responses to all complete requests on the connection, so that responses keep their order. */
  const afterAnswers = (socket: Duplex, then: () => void): void => {
    const last = pendingOn(socket).findLast(({ destroyed, req }) => req.complete && !destroyed)
    if (last === undefined) then()
    else last.once("close", () => afterAnswers(socket, then))
  }

  return {
    /** Whether a response has begun to a request that has not arrived completely: no other response can replace it. */
    hasPartialExchange: (socket: Duplex): boolean =>
      pendingOn(socket).some(({ headersSent, req }) => headersSent && !req.complete),
    afterAnswers,
    /** Closes connections that never sent a byte, which Node counts as busy; when it is `late`, all on which no complete request waits. */
    closeUnused: (late: boolean): void => {
      for (const socket of open.keys()) {
        const isSilent = "bytesRead" in socket && socket.bytesRead === 0
        if (isSilent || (late && !pendingOn(socket).some(({ req }) => req.complete))) socket.destroy()
      }
    }
  }
}
export type Connections = ReturnType<typeof trackConnections>
