/** Tracks what Node does not expose: the open connections, and the unanswered requests on each. Bounds both. */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http"
import type { Socket } from "node:net"
import type { Duplex } from "node:stream"
import type { DrainedRequests } from "../../services/Drain.ts"
import { httpConnections, httpConnectionsClosed, recordNow } from "../../services/Metrics.ts"

/** How many connections may be open, and for how long an answer may wait to be read. */
export interface ConnectionLimits {
  readonly all: number
  /** Of one client address (a /64 of IPv6). Not applied with `MUSIC_RATE_LIMIT=off`, where all clients may share one. */
  readonly address: number
  /** Milliseconds of Node's timers from the end of an answer until the client has read it. */
  readonly unreadMillis: number
}

/** `all` is below the descriptors that systems give a service (`LimitNOFILE`). */
export const defaultConnectionLimits: ConnectionLimits = { all: 10_000, address: 512, unreadMillis: 60_000 }

/** How the connections of a server are bounded. */
export interface ConnectionRules {
  readonly limits: ConnectionLimits
  /** The network that the other end belongs to; undefined for a trusted proxy, which has the connections of many clients. */
  readonly networkOf: (socket: Socket) => string | undefined
}

interface Exchange {
  readonly message: IncomingMessage
  readonly response: ServerResponse
  /** When a check first saw the complete answer waiting to be read. */
  unreadSince: number | undefined
}

interface Connection {
  readonly socket: Socket
  readonly group: Group
  readonly requests: Set<Exchange>
}

/** The connections of one network. */
interface Group {
  readonly network: string | undefined
  readonly all: Set<Connection>
  /** Those without an unanswered request, in the order in which they became so. */
  readonly free: Set<Connection>
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

const firstOf = <A>(items: Iterable<A>): A | undefined => {
  for (const item of items) return item
  return undefined
}

/** The one with the most free connections. */
const mostFree = (groups: Iterable<Group>): Group | undefined => {
  let found: Group | undefined
  for (const group of groups) if (group.free.size > (found?.free.size ?? 0)) found = group
  return found
}

/**
 * Tracks the connections of a server; to be called before it listens. At a limit the connection closes that has had no unanswered
 * request for longest: of the new one's network at that network's limit, else of the network with the most such connections. When
 * every one has an unanswered request, the new one closes. So idle connections never keep a client out.
 */
export const trackConnections = (server: Server, { limits, networkOf }: ConnectionRules): Connections => {
  const open = new Map<Duplex, Connection>()
  const groups = new Map<string | undefined, Group>()

  const close = ({ socket }: Connection, reason: "address" | "all" | "unread"): void => {
    recordNow(httpConnectionsClosed({ reason }), 1)
    socket.destroy()
    forget(socket)
  }

  const forget = (socket: Duplex): void => {
    const connection = open.get(socket)
    if (connection === undefined) return
    const { group } = connection
    open.delete(socket)
    group.all.delete(connection)
    group.free.delete(connection)
    if (group.all.size === 0) groups.delete(group.network)
    recordNow(httpConnections, open.size)
  }

  /** Closes the connection that must make room for this one, if one must. */
  const makeRoomFor = (connection: Connection): void => {
    const { all, free, network } = connection.group
    // The new one is free as well, and the last of its network.
    if (network !== undefined && all.size > limits.address) close(firstOf(free) ?? connection, "address")
    else if (open.size > limits.all)
      close(firstOf(mostFree(groups.values())?.free ?? free) ?? connection, "all")
  }

  server.on("connection", (socket: Socket) => {
    const network = networkOf(socket)
    const group = groups.get(network) ?? { network, all: new Set(), free: new Set() }
    groups.set(network, group)
    const connection: Connection = { socket, group, requests: new Set() }
    open.set(socket, connection)
    group.all.add(connection)
    group.free.add(connection)
    recordNow(httpConnections, open.size)
    socket.once("close", () => forget(socket))
    makeRoomFor(connection)
  })

  const closeUnread = (): void => {
    const now = performance.now()
    for (const connection of [...open.values()])
      for (const exchange of connection.requests) {
        const { response } = exchange
        if (!response.writableEnded || response.writableFinished) continue
        exchange.unreadSince ??= now
        if (now - exchange.unreadSince < limits.unreadMillis) continue
        close(connection, "unread")
        break
      }
  }
  const checking = setInterval(closeUnread, limits.unreadMillis / 12)
  checking.unref()
  server.once("close", () => clearInterval(checking))

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
      const connection = open.get(message.socket)
      if (connection !== undefined) {
        const { group, requests } = connection
        const exchange: Exchange = { message, response, unreadSince: undefined }
        requests.add(exchange)
        group.free.delete(connection)
        response.once("close", () => {
          requests.delete(exchange)
          if (requests.size === 0 && open.has(connection.socket)) group.free.add(connection)
        })
      }
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
