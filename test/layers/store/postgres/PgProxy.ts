/** A proxy between a store and its Postgres that can cut or freeze connections, lose the answer to a commit, or move sessions. */
import { once } from "node:events"
import { createServer, connect as dial, type Socket } from "node:net"
import { Effect } from "effect"

/** A client and the session of the server that it has now. */
interface Link {
  readonly near: Socket
  far: Socket
  /** Logged in, and in no transaction. */
  isIdle: boolean
  isLost: boolean
}

/** The end of an answer outside of a transaction. */
const ready = Buffer.from("Z\0\0\0\x05I")
const isReady = (chunk: Buffer) => chunk.subarray(-ready.length).equals(ready)

const listening = async (port: number, accept: (socket: Socket) => void) => {
  const server = createServer(accept).listen(port, "127.0.0.1")
  await once(server, "listening")
  return server
}

const makeProxy = async (address: string, movesSessions: boolean) => {
  const target = new URL(address)
  const links = new Set<Link>()
  let frozen = false
  let losing = false
  const sockets = () => [...links].flatMap(({ far, near }) => [near, far])

  const accept = (near: Socket) => {
    const link: Link = {
      near,
      far: dial(Number(target.port), target.hostname),
      isIdle: false,
      isLost: false
    }
    const { far } = link
    const end = (socket: Socket) => () => {
      const broken = [...links].find((one) => one.near === socket || one.far === socket)
      if (broken === undefined) return
      links.delete(broken)
      broken.near.destroy()
      broken.far.destroy()
    }
    links.add(link)
    for (const socket of [near, far]) socket.on("error", end(socket)).on("close", end(socket))
    // As pgbouncer does with startup parameters that it does not know.
    if (movesSessions)
      near.once("data", (chunk) => {
        if (/options|_timeout|synchronous|default_/.test(chunk.toString("latin1"))) end(near)()
      })
    near.on("data", (chunk) => {
      if (losing && chunk.includes("COMMIT\0")) {
        losing = false
        link.isLost = true
      }
      link.isIdle = false
      link.far.write(chunk)
    })
    far.on("data", (chunk) => {
      const owner = [...links].find((one) => one.far === far)
      if (owner === undefined) return
      // Earlier statements are answered before the commit.
      if (owner.isLost) return isReady(chunk) ? end(far)() : undefined
      owner.isIdle = isReady(chunk)
      // The sessions change places before the client can send again.
      const other = [...links].find((one) => one !== owner && one.isIdle)
      if (movesSessions && owner.isIdle && other !== undefined) {
        owner.far = other.far
        other.far = far
      }
      owner.near.write(chunk)
    })
    if (frozen) for (const socket of [near, far]) socket.pause()
  }

  let server = await listening(0, accept)
  const bound = server.address()
  const port = typeof bound === "object" && bound !== null ? bound.port : 0
  return {
    url: Object.assign(new URL(address), { port: String(port) }).href,
    cut: async () => {
      const closed = once(server, "close")
      server.close()
      for (const socket of sockets()) socket.destroy()
      await closed
    },
    freeze: () => {
      frozen = true
      for (const socket of sockets()) socket.pause()
    },
    repair: async () => {
      if (frozen) for (const socket of sockets()) socket.resume()
      frozen = false
      if (!server.listening) server = await listening(port, accept)
    },
    lose: () => {
      losing = true
    }
  }
}

/** Until the scope closes. One that `movesSessions` is a pooler in transaction mode. */
export const pgProxy = (address: string, { movesSessions = false } = {}) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(() => makeProxy(address, movesSessions)),
      ({ cut, repair }) => Effect.promise(() => repair().then(cut))
    ),
    ({ cut, freeze, lose, repair, url }) => ({
      /** The given address, through the proxy. */
      url,
      /** Breaks every connection and refuses new ones, until it is repaired. */
      cut: Effect.promise(cut),
      /** Forwards nothing and closes nothing, until it is repaired. */
      freeze: Effect.sync(freeze),
      repair: Effect.promise(repair),
      /** Forwards the next commit to the server, and breaks the connection instead of forwarding the answer. */
      loseNextCommit: Effect.sync(lose)
    })
  )
