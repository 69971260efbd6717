/** Tracks what Node does not expose: the open connections, and the unanswered requests on each. */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http"
import type { Socket } from "node:net"
import type { Duplex } from "node:stream"
import type { DrainedRequests } from "../../services/Drain.ts"

interface Exchange {
  readonly message: IncomingMessage
  readonly response: ServerResponse
}

interface Connection {
  readonly socket: Socket
  readonly requests: Set<Exchange>
}

export interface Connections {
  /** Wraps the listener: a request counts from its arrival until its response or its connection is closed. */
  readonly track: (listener: RequestListener) => RequestListener
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

/** Tracks the connections of a server; to be called before it listens. */
export const trackConnections = (server: Server): Connections => {
  const open = new Map<Duplex, Connection>()
  server.on("connection", (socket: Socket) => {
    open.set(socket, { socket, requests: new Set() })
    socket.once("close", () => open.delete(socket))
  })

  const exchangesOn = (socket: Duplex): ReadonlyArray<Exchange> => [...(open.get(socket)?.requests ?? [])]

  const closeWhere = (isChosen: (connection: Connection) => boolean) => () => {
    for (const connection of open.values()) if (isChosen(connection)) connection.socket.destroy()
  }

  const afterAnswers = (socket: Duplex, then: () => void): void => {
    const last = exchangesOn(socket).findLast(({ message }) => message.complete)
    if (last === undefined) then()
    else last.response.once("close", () => afterAnswers(socket, then))
  }

  return {
    track: (listener) => (message, response) => {
      const requests = open.get(message.socket)?.requests
      const exchange = { message, response }
      requests?.add(exchange)
      response.once("close", () => requests?.delete(exchange))
      return listener(message, response)
    },
    followUnanswered: () => {
      const unanswered = [...open.values()]
        .flatMap(({ requests }) => [...requests])
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
      exchangesOn(socket).some(({ message, response }) => response.headersSent && !message.complete),
    afterAnswers,
    closeSilent: closeWhere(({ socket }) => socket.bytesRead === 0),
    closeFree: closeWhere(({ requests }) => requests.size === 0),
    closeAll: closeWhere(() => true)
  }
}
