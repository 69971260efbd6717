/** The way to other systems: TLS in front of a simulator, with a certificate of a private authority, and a proxy that opens tunnels. */
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { createServer as createHttpServer } from "node:http"
import { createServer as createHttpsServer } from "node:https"
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net"
import { fileURLToPath } from "node:url"
import { createServer as createTlsServer, TLSSocket } from "node:tls"
import { Effect } from "effect"

/** For `NODE_EXTRA_CA_CERTS`. It is the authority, and the certificate of `localhost` and of every name below `music.test`. */
export const authorityFile = fileURLToPath(new URL("certificates/authority.pem", import.meta.url))

const identity = {
  cert: readFileSync(authorityFile),
  key: readFileSync(new URL("certificates/authority-key.pem", import.meta.url))
}

/** Of the same authority: the names below `music.test`, and not `localhost`. */
const targetsOnly = { ...identity, cert: readFileSync(new URL("certificates/targets.pem", import.meta.url)) }

const join = (one: Socket, other: Socket): void => {
  for (const [from, to] of [
    [one, other],
    [other, one]
  ] as const) {
    from.on("error", () => to.destroy())
    from.on("close", () => to.destroy())
    from.pipe(to)
  }
}

/** Listens on loopback until the scope closes; returns the port. */
export const listening = (server: Server) =>
  Effect.gen(function* () {
    const sockets = new Set<Socket>()
    server.on("connection", (socket: Socket) => {
      sockets.add(socket)
      socket.on("close", () => sockets.delete(socket))
      socket.on("error", () => undefined)
    })
    yield* Effect.acquireRelease(
      Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening")),
      () =>
        Effect.sync(() => {
          server.close()
          for (const socket of sockets) socket.destroy()
        })
    )
    // The address of a TCP server is never a pipe's name.
    return (server.address() as AddressInfo).port
  })

/** TLS in front of a port of this machine. */
export const tlsFront = (port: number) =>
  listening(createTlsServer(identity, (socket) => join(socket, connect(port, "127.0.0.1"))))

/** A PostgreSQL server that speaks TLS and refuses every login. */
export const refusingPostgres = listening(
  createServer((socket) => {
    socket.once("data", () => {
      socket.write("S")
      const secure = new TLSSocket(socket, { ...identity, isServer: true })
      secure.on("error", () => undefined)
      secure.once("data", () => {
        const fields = "SFATAL\0C28P01\0Mpassword authentication failed\0\0"
        const head = Buffer.alloc(5)
        head.write("E")
        head.writeInt32BE(fields.length + 4, 1)
        secure.end(Buffer.concat([head, Buffer.from(fields)]))
      })
    })
  })
)

/**
 * Opens a tunnel to the port that `ports` has for the target; `refuse` refuses all of them instead, and `hang` never answers. A proxy
 * with a certificate is reached by `https`: it names `localhost`, or only the targets.
 */
export const tunnelProxy = (
  ports: Readonly<Record<string, number>>,
  refuse?: number | "hang",
  certificate?: "localhost" | "targets"
) =>
  Effect.gen(function* () {
    /** The targets of the requests for a tunnel, in order. */
    const targets: Array<string> = []
    const credentials: Array<string | undefined> = []
    const open = new Set<Socket>()
    const server =
      certificate === undefined
        ? createHttpServer()
        : createHttpsServer(certificate === "localhost" ? identity : targetsOnly)
    server.on("connect", ({ headers, url = "" }, socket: Socket) => {
      targets.push(url)
      credentials.push(headers["proxy-authorization"])
      const port = ports[url]
      if (refuse === "hang") return
      if (refuse !== undefined || port === undefined)
        return void socket.end(`HTTP/1.1 ${refuse ?? 502} Refused\r\n\r\n`)
      const target = connect(port, "127.0.0.1")
      target.on("connect", () => {
        socket.write("HTTP/1.1 200 Connection established\r\n\r\n")
        open.add(socket)
        join(socket, target)
      })
    })
    const port = yield* listening(server)
    return {
      port,
      targets,
      credentials,
      /** Breaks every open tunnel. */
      cut: () => {
        for (const socket of open) socket.destroy()
      }
    }
  })
