/** A pooler in front of a Postgres that behaves like pgbouncer where this program could notice it. */
import { once } from "node:events"
import { createServer, connect as dial, type Socket } from "node:net"
import * as Effect from "effect/Effect"
import pg from "pg"

export type PoolMode = "session" | "transaction" | "statement"

/** Parameters of a startup message that pgbouncer knows; it refuses all others. */
const known: ReadonlyArray<string> = [
  "user",
  "database",
  "application_name",
  "client_encoding",
  "datestyle",
  "timezone",
  "standard_conforming_strings",
  "replication"
]

const text = (value: string) => Buffer.from(`${value}\0`)

const message = (type: string, ...parts: ReadonlyArray<Buffer>): Buffer => {
  const body = Buffer.concat(parts)
  const head = Buffer.alloc(5)
  head.write(type)
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}

const int32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}

/** pgbouncer gives this code to all errors of its own. */
const fatal = (reason: string) =>
  message("E", text("SFATAL"), text("VFATAL"), text("C08P01"), text(`M${reason}`), Buffer.from([0]))

/** Calls `take` for each whole message; `headless` messages have no type (the first one of a client). */
const splitting = (take: (type: string, whole: Buffer) => void, headless = false) => {
  let rest: Buffer = Buffer.alloc(0)
  let first = headless
  return (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk])
    for (;;) {
      const at = first ? 0 : 1
      if (rest.length < at + 4) return
      const length = at + rest.readInt32BE(at)
      if (rest.length < length) return
      const whole = rest.subarray(0, length)
      rest = rest.subarray(length)
      const type = first ? "" : whole.toString("latin1", 0, 1)
      first = false
      take(type, whole)
    }
  }
}

/** Names and values of a startup message. */
const parametersOf = (startup: Buffer): ReadonlyMap<string, string> => {
  const parts = startup.toString("utf8", 8).split("\0")
  const found = new Map<string, string>()
  for (let at = 0; at + 1 < parts.length && parts[at] !== ""; at += 2)
    found.set(parts[at]?.toLowerCase() ?? "", parts[at + 1] ?? "")
  return found
}

const refusalOf = (startup: Buffer): Buffer | undefined => {
  const unknown = [...parametersOf(startup).keys()].find((name) => !known.includes(name))
  return unknown === undefined ? undefined : fatal(`unsupported startup parameter: ${unknown}`)
}

interface Server {
  readonly socket: Socket
  /** Takes the server's messages while a client has it. */
  receive: (type: string, whole: Buffer) => void
}

/** A connection that the driver has opened and no longer uses. */
const openServer = async (url: string): Promise<Server> => {
  const client = new pg.Client({ connectionString: url })
  client.on("error", () => undefined)
  await client.connect()
  // The driver's types hide its connection; a driver without one fails the test.
  const { stream } = (client as unknown as { readonly connection: { readonly stream: Socket } }).connection
  stream.removeAllListeners("data")
  const server: Server = { socket: stream, receive: () => undefined }
  stream.on(
    "data",
    splitting((type, whole) => server.receive(type, whole))
  )
  stream.on("error", () => undefined)
  return server
}

const welcome = Buffer.concat([
  message("R", int32(0)),
  message("S", text("server_version"), text("18.0")),
  message("S", text("client_encoding"), text("UTF8")),
  message("S", text("standard_conforming_strings"), text("on")),
  message("K", int32(1), int32(1)),
  message("Z", Buffer.from("I"))
])

/** One server connection for each transaction, or statement, of a client: the one that was used last, as pgbouncer chooses. */
const sharedServers = async (url: string, size: number, mode: "transaction" | "statement") => {
  const free: Array<Server> = []
  for (let index = 0; index < size; index += 1) free.push(await openServer(url))
  const all = [...free]
  const wanting: Array<() => void> = []

  const giveBack = (server: Server) => {
    server.receive = () => undefined
    free.push(server)
    wanting.shift()?.()
  }

  const accept = (client: Socket) => {
    let server: Server | undefined
    let queued = false
    let open = 0
    let status = "I"
    const pending: Array<Buffer> = []

    const receive = (type: string, whole: Buffer) => {
      if (type !== "Z") {
        client.write(whole)
        return
      }
      open -= 1
      status = whole.toString("latin1", 5, 6)
      if (mode === "statement" && status !== "I") {
        client.end(fatal("transaction blocks not allowed in statement pooling mode"))
        return
      }
      client.write(whole)
      if (status === "I" && open === 0 && server !== undefined) {
        const used = server
        server = undefined
        giveBack(used)
      }
    }
    const forward = () => {
      queued = false
      if (server === undefined) {
        if (pending.length === 0 || client.destroyed) return wanting.shift()?.()
        server = free.pop()
        if (server === undefined) {
          queued = true
          wanting.push(forward)
          return
        }
        server.receive = receive
      }
      for (const whole of pending.splice(0)) server.socket.write(whole)
    }
    const leave = () => {
      if (server === undefined) return
      const left = server
      server = undefined
      // The client left in the middle of a transaction.
      left.receive = (type) => {
        if (type === "Z") giveBack(left)
      }
      left.socket.write(message("Q", text("ROLLBACK")))
    }
    client.on("error", () => undefined).on("close", leave)
    client.on(
      "data",
      splitting((type, whole) => {
        if (type === "") {
          const refusal = refusalOf(whole)
          if (refusal === undefined) client.write(welcome)
          else client.end(refusal)
          return
        }
        if (type === "X") {
          client.end()
          return
        }
        if (type === "Q" || type === "S") open += 1
        pending.push(whole)
        if (!queued) forward()
      }, true)
    )
  }
  const close = () => {
    for (const { socket } of all) socket.destroy()
  }
  return { accept, close }
}

/** A server connection for each client. `room` bounds them; a further client is refused, as by `max_client_conn`. */
const ownServers = (url: string, room: number) => {
  const target = new URL(url)
  let clients = 0
  const accept = (client: Socket) => {
    clients += 1
    client.on("error", () => undefined)
    client.once("close", () => {
      clients -= 1
    })
    let server: Socket | undefined
    client.on(
      "data",
      splitting((_, whole) => {
        if (server !== undefined) {
          server.write(whole)
          return
        }
        const refusal =
          refusalOf(whole) ??
          (clients > room ? fatal("no more connections allowed (max_client_conn)") : undefined)
        if (refusal !== undefined) {
          client.end(refusal)
          return
        }
        const far = dial(Number(target.port), target.hostname)
        server = far
        far.on("error", () => client.destroy())
        far.on("close", () => client.destroy())
        client.on("close", () => far.destroy())
        far.write(whole)
        far.on("data", (chunk) => client.write(chunk))
      }, true)
    )
  }
  return { accept, close: () => undefined }
}

/** Listens until the scope closes; returns the given address through the pooler. */
export const pooler = (url: string, mode: PoolMode, { room = 100, size = 2 } = {}) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const { accept, close } =
          mode === "session" ? ownServers(url, room) : await sharedServers(url, size, mode)
        const sockets = new Set<Socket>()
        const server = createServer((socket) => {
          sockets.add(socket)
          socket.once("close", () => sockets.delete(socket))
          accept(socket)
        }).listen(0, "127.0.0.1")
        await once(server, "listening")
        const bound = server.address()
        const through = new URL(url)
        through.port = String(typeof bound === "object" && bound !== null ? bound.port : 0)
        const stop = async () => {
          const closed = once(server, "close")
          server.close()
          for (const socket of sockets) socket.destroy()
          close()
          await closed
        }
        return { url: through.href, stop }
      }),
      ({ stop }) => Effect.promise(stop)
    ),
    ({ url: through }) => through
  )
