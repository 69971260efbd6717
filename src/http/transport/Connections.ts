/** Tracks what Node does not expose: the open connections, and the unanswered requests on each. */
import type { IncomingMessage, Server, ServerResponse } from "node:http"
import type { Socket } from "node:net"
import type { Duplex } from "node:stream"
import type { DrainedRequests } from "../../services/Drain.ts"
import { httpConnections, recordNow } from "../../services/Metrics.ts"

interface Pending {
  readonly message: IncomingMessage
  readonly response: ServerResponse
}

export interface Connections {
  /** Counts the requests that have no complete response now: by then, `finished` have got one, and `cut` have not. */
  readonly followUnanswered: () => () => DrainedRequests
  /** Whether a response has begun to a request that has not arrived completely: no other response can replace it. */
  readonly hasPartialExchange: (socket: Duplex) => boolean
  /** Runs `then` after the responses to all complete requests on the connection, so that responses keep their order. */
  readonly afterAnswers: (socket: Duplex, then: () => void) => void
  /** Closes connections that never sent a byte: Node counts them as busy and would wait for them. */
  readonly closeSilent: () => void
  /** Closes connections without an unanswered request, also those with a partial head. */
  readonly closeFree: () => void
  /** Closes every connection, also one after CONNECT, which Node's `closeAllConnections` omits. */
  readonly closeAll: () => void
}

/** Tracks the connections of a server; to be called before it listens. A request counts from its head until its response is closed. */
export const trackConnections = (server: Server): Connections => {
  const open = new Map<Duplex, Set<Pending>>()
  server.on("connection", (socket: Socket) => {
    open.set(socket, new Set())
    recordNow(httpConnections, open.size)
    socket.once("close", () => {
      open.delete(socket)
      recordNow(httpConnections, open.size)
    })
  })
  server.on("request", (message, response) => {
    const pending = { message, response }
    open.get(message.socket)?.add(pending)
    response.once("close", () => open.get(message.socket)?.delete(pending))
  })

  const pendingOn = (socket: Duplex): ReadonlyArray<Pending> => [...(open.get(socket) ?? [])]

  const closeWhere = (isChosen: (socket: Duplex, pending: ReadonlySet<Pending>) => boolean) => () => {
    for (const [socket, pending] of open) if (isChosen(socket, pending)) socket.destroy()
  }

  const afterAnswers = (socket: Duplex, then: () => void): void => {
    const last = pendingOn(socket).findLast(({ message }) => message.complete)
    if (last === undefined) then()
    else last.response.once("close", () => afterAnswers(socket, then))
  }

  return {
    followUnanswered: () => {
      const unanswered = [...open.values()]
        .flatMap((pending) => [...pending])
        .filter(({ response }) => !response.writableFinished)
      let finished = 0
      for (const { message, response } of unanswered)
        response.once("finish", () => {
          // The end of a connection finishes a response of which a part was not sent.
          if (!message.socket.destroyed) finished += 1
        })
      return () => ({ finished, cut: unanswered.length - finished })
    },
    hasPartialExchange: (socket) =>
      pendingOn(socket).some(({ message, response }) => response.headersSent && !message.complete),
    afterAnswers,
    closeSilent: closeWhere((socket) => "bytesRead" in socket && socket.bytesRead === 0),
    closeFree: closeWhere((_, pending) => pending.size === 0),
    closeAll: closeWhere(() => true)
  }
}
