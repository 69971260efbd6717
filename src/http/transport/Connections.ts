/** What Node keeps to itself: which connections there are, and which requests are in hand on each. */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http"
import type { Socket } from "node:net"
import type { Duplex } from "node:stream"

interface InHand {
  readonly message: IncomingMessage
  readonly response: ServerResponse
}

interface Connection {
  readonly socket: Socket
  readonly requests: Set<InHand>
}

export interface Connections {
  /** The listener; its requests are in hand from then on until their answer is out or their connection gone. */
  readonly noting: (listener: RequestListener) => RequestListener
  /** Requests that are not answered yet. */
  readonly inHand: () => number
  /** Whether the answer to a request has begun that has not arrived whole: no other answer can replace it. */
  readonly answersHalf: (socket: Duplex) => boolean
  /** Runs once every request that arrived whole on the connection is answered, so that answers keep their order. */
  readonly afterAnswers: (socket: Duplex, then: () => void) => void
  /** Closes connections on which nothing was ever sent: Node counts them as busy, and would wait for them. */
  readonly closeSilent: () => void
  /** Closes connections without a request in hand, whatever was begun on them. */
  readonly closeFree: () => void
  /** Also those that became something else than HTTP, which `closeAllConnections` forgets. */
  readonly closeAll: () => void
}

/** Follows the connections of a server, from before it listens. */
export const connectionsOf = (server: Server): Connections => {
  const open = new Map<Duplex, Connection>()
  server.on("connection", (socket: Socket) => {
    open.set(socket, { socket, requests: new Set() })
    socket.once("close", () => open.delete(socket))
  })

  const on = (socket: Duplex): ReadonlyArray<InHand> => [...(open.get(socket)?.requests ?? [])]

  const closeWhere = (chosen: (connection: Connection) => boolean) => () => {
    for (const connection of open.values()) if (chosen(connection)) connection.socket.destroy()
  }

  const afterAnswers = (socket: Duplex, then: () => void): void => {
    const last = on(socket).findLast(({ message }) => message.complete)
    if (last === undefined) then()
    else last.response.once("close", () => afterAnswers(socket, then))
  }

  return {
    noting: (listener) => (message, response) => {
      const requests = open.get(message.socket)?.requests
      const noted = { message, response }
      requests?.add(noted)
      response.once("close", () => requests?.delete(noted))
      return listener(message, response)
    },
    inHand: () =>
      [...open.values()]
        .flatMap(({ requests }) => [...requests])
        .filter(({ response }) => !response.writableEnded).length,
    answersHalf: (socket) =>
      on(socket).some(({ message, response }) => response.headersSent && !message.complete),
    afterAnswers,
    closeSilent: closeWhere(({ socket }) => socket.bytesRead === 0),
    closeFree: closeWhere(({ requests }) => requests.size === 0),
    closeAll: closeWhere(() => true)
  }
}
