/** Tracks what Node does not expose: the open connections, and the unanswered requests on each. Bounds both. */
import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http"
import type { Socket } from "node:net"
import type { Duplex } from "node:stream"
import type { DrainedRequests } from "../../services/Drain.ts"
import { httpConnections, httpConnectionsClosed, recordNow } from "../../services/Metrics.ts"
import { siteOf } from "../../services/Site.ts"
import { makeLargestFirst } from "./LargestFirst.ts"

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
  /** Monotonic milliseconds. */
  readonly now?: () => number
}

/** Milliseconds for which a head that has begun to arrive keeps its connection at a limit. */
const headMillis = 5_000
/** How many connections keep their place so, of one network or in all. More could fill all places with begun heads. */
const headsKept = 256
/** A network with no more connections than this is an ordinary client's, and has no disadvantage for their number. */
const ordinaryCount = 8

interface Exchange {
  readonly message: IncomingMessage
  readonly response: ServerResponse
  /** When a check first saw the complete answer waiting to be read. */
  unreadSince: number | undefined
}

interface Connection {
  readonly socket: Socket
  /** Those that it belongs to: of its network, of its site, and of all. */
  readonly pools: ReadonlyArray<Pool>
  readonly requests: Set<Exchange>
  /** What had arrived when it became free. */
  bytesBefore: number
  /** When a new connection first found a begun head on it. */
  headSince: number | undefined
  readonly forget: () => void
}

/** Connections in the order in which they became so. */
interface Pool {
  /** Without an unanswered request. */
  readonly free: Set<Connection>
  readonly busy: Set<Connection>
}

const makePool = (): Pool => ({ free: new Set(), busy: new Set() })
const sizeOf = ({ busy, free }: Pool): number => free.size + busy.size

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

/** The answer is complete, and the client has not read it. */
const isUnread = ({ response }: Exchange): boolean => response.writableEnded && !response.writableFinished

/** Whether all answers of a connection are complete, and only their client is waited for. */
const waitsForReader = ({ requests }: Connection): boolean => {
  for (const exchange of requests) if (!isUnread(exchange)) return false
  return true
}

/**
 * Tracks the connections of a server; to be called before it listens. At a limit, one connection closes: the free one that has been
 * free for longest, where a begun head has 5 s; else the one whose answers have waited longest to be read; else the new one. At the limit
 * of a network it is one of that network. At the limit of all it is one of the site with the most connections, or, when no site has
 * more than an ordinary client, any. So idle connections keep no client out, and a crowd makes room at its own cost.
 */
export const trackConnections = (
  server: Server,
  { limits, networkOf, now = () => performance.now() }: ConnectionRules
): Connections => {
  const open = new Map<Duplex, Connection>()
  const networks = new Map<string | undefined, Pool>()
  const sites = new Map<string | undefined, Pool>()
  const all = makePool()
  const largestSites = makeLargestFirst<Pool>()
  const kept = Math.min(headsKept, Math.floor(limits.address / 2))

  const close = (connection: Connection, reason: "address" | "all" | "unread"): void => {
    recordNow(httpConnectionsClosed({ reason }), 1)
    connection.socket.destroy()
    connection.forget()
  }

  /** Whether a part of a head has arrived, less than 5 s ago. */
  const hasFreshHead = (connection: Connection): boolean => {
    if (connection.socket.bytesRead === connection.bytesBefore) return false
    connection.headSince ??= now()
    return now() - connection.headSince < headMillis
  }

  /** The connection of the pool to close for a new one; undefined when each has an unanswered request or a fresh head. */
  const closableOf = ({ busy, free }: Pool, added: Connection): Connection | undefined => {
    let skipped = 0
    for (const connection of free) {
      if (connection === added) continue
      if (skipped === kept || !hasFreshHead(connection)) return connection
      skipped += 1
    }
    for (const connection of busy) if (waitsForReader(connection)) return connection
    return undefined
  }

  const closableOfAll = (added: Connection): Connection | undefined => {
    for (const site of largestSites.above(ordinaryCount)) {
      const found = closableOf(site, added)
      if (found !== undefined) return found
    }
    return closableOf(all, added)
  }

  const poolOf = (pools: Map<string | undefined, Pool>, key: string | undefined): Pool => {
    const pool = pools.get(key) ?? makePool()
    pools.set(key, pool)
    return pool
  }

  server.on("connection", (socket: Socket) => {
    const network = networkOf(socket)
    const siteName = network === undefined ? undefined : siteOf(network)
    const [near, site] = [poolOf(networks, network), poolOf(sites, siteName)]
    const pools = [near, site, all]
    const forget = (): void => {
      if (!open.delete(socket)) return
      for (const { busy, free } of pools) {
        free.delete(connection)
        busy.delete(connection)
      }
      if (sizeOf(near) === 0) networks.delete(network)
      if (sizeOf(site) === 0) sites.delete(siteName)
      largestSites.resize(site, sizeOf(site))
      recordNow(httpConnections, open.size)
    }
    const connection: Connection = {
      socket,
      pools,
      requests: new Set(),
      bytesBefore: 0,
      headSince: undefined,
      forget
    }
    open.set(socket, connection)
    for (const { free } of pools) free.add(connection)
    largestSites.resize(site, sizeOf(site))
    recordNow(httpConnections, open.size)
    socket.once("close", forget)
    if (network !== undefined && sizeOf(near) > limits.address)
      close(closableOf(near, connection) ?? connection, "address")
    else if (open.size > limits.all) close(closableOfAll(connection) ?? connection, "all")
  })

  const closeUnread = (): void => {
    const at = now()
    for (const connection of [...open.values()])
      for (const exchange of connection.requests) {
        if (!isUnread(exchange)) continue
        exchange.unreadSince ??= at
        if (at - exchange.unreadSince < limits.unreadMillis) continue
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
        const { pools, requests } = connection
        const exchange: Exchange = { message, response, unreadSince: undefined }
        requests.add(exchange)
        for (const { busy, free } of pools) {
          free.delete(connection)
          busy.add(connection)
        }
        response.once("close", () => {
          requests.delete(exchange)
          if (requests.size > 0 || !open.has(connection.socket)) return
          connection.bytesBefore = connection.socket.bytesRead
          connection.headSince = undefined
          for (const { busy, free } of pools) {
            busy.delete(connection)
            free.add(connection)
          }
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
