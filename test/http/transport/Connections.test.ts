import { createServer, type RequestListener } from "node:http"
import { connect, type Socket } from "node:net"
import type { AddressInfo } from "node:net"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import { afterEach, describe, expect, it } from "vitest"
import { connectionNetworkResolver } from "../../../src/http/transport/ClientAddress.ts"
import {
  type ConnectionLimits,
  defaultConnectionLimits,
  trackConnections
} from "../../../src/http/transport/Connections.ts"
import { httpConnections, httpConnectionsClosed } from "../../../src/services/Metrics.ts"

const one = "127.0.0.11"
const other = "127.0.0.12"
const proxy = "127.0.0.13"

const request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

interface Client {
  readonly socket: Socket
  readonly state: { received: number; closed: boolean }
}

const ends: Array<() => void> = []
afterEach(() => {
  for (const end of ends.splice(0)) end()
})

/** A server with these limits; requests are answered unless the listener keeps them. */
const serve = async (
  limits: Partial<ConnectionLimits>,
  listener: RequestListener = (_, response) => response.end("ok"),
  now: () => number = () => performance.now()
) => {
  const server = createServer({ keepAliveTimeout: 0 })
  const tracked = trackConnections(server, {
    limits: { ...defaultConnectionLimits, ...limits },
    networkOf: connectionNetworkResolver([proxy]),
    now
  })
  const accepted = new Set<Socket>()
  server.on("connection", (socket: Socket) => accepted.add(socket))
  server.on("request", tracked.track(listener))
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  ends.push(() => {
    server.close()
    server.closeAllConnections()
  })
  // A server on a port always has such an address.
  const { port } = server.address() as AddressInfo
  /** Resolves when the server has accepted the connection or refused it. */
  const open = async (from: string): Promise<Client> => {
    const accepted = new Promise((resolve) => server.once("connection", () => setImmediate(resolve)))
    const socket = connect({ port, host: "127.0.0.1", localAddress: from })
    const state = { received: 0, closed: false }
    socket.on("data", (part) => {
      state.received += part.length
    })
    socket.on("error", () => undefined)
    socket.on("close", () => {
      state.closed = true
    })
    ends.push(() => socket.destroy())
    await accepted
    return { socket, state }
  }
  const ask = async (client: Client) => {
    const { received } = client.state
    client.socket.write(request)
    await expect.poll(() => client.state.received).toBeGreaterThan(received)
  }
  /** Sends a part of a head, and resolves when it has arrived. */
  const begin = async ({ socket }: Client) => {
    const far = [...accepted].find(({ remotePort }) => remotePort === socket.localPort)
    const before = far?.bytesRead ?? 0
    socket.write("GET / HTTP/1.1\r\nHost: a\r\n")
    await expect.poll(() => far?.bytesRead).toBeGreaterThan(before)
  }
  return { open, ask, begin }
}

const isClosed = ({ state }: Client) => expect.poll(() => state.closed).toBe(true)

describe("The bound of connections", () => {
  it("is 512 of one address, 10,000 in all, and 60 s to read an answer", () => {
    expect(defaultConnectionLimits).toEqual({ address: 512, all: 10_000, unreadMillis: 60_000 })
  })

  it("counts open connections, and those that it closes", async () => {
    const read = () => ({
      open: Effect.runSync(Metric.value(httpConnections)).value,
      closed: Effect.runSync(Metric.value(httpConnectionsClosed({ reason: "address" }))).count
    })
    const before = read()
    const { open } = await serve({ address: 2 })
    const clients = [await open(one), await open(one), await open(one)] as const
    await isClosed(clients[0])
    expect(read()).toEqual({ open: 2, closed: before.closed + 1 })
  })

  it("closes the connection of the same address that has had no request for longest", async () => {
    const { ask, open } = await serve({ address: 3 })
    const elsewhere = await open(other)
    const clients = [await open(one), await open(one), await open(one)] as const
    await ask(clients[0])
    const fourth = await open(one)
    await isClosed(clients[1])
    const fifth = await open(one)
    await isClosed(clients[2])
    for (const open of [elsewhere, clients[0], fourth, fifth]) {
      await ask(open)
      expect(open.state.closed).toBe(false)
    }
  })

  it("closes a connection whose head has not arrived completely", async () => {
    const { ask, open } = await serve({ address: 1 })
    const partial = await open(one)
    partial.socket.write("GET / HTTP/1.1\r\nHost: a\r\n")
    const next = await open(one)
    await isClosed(partial)
    await ask(next)
  })

  it("closes none with an unanswered request: when all have one, the new one closes", async () => {
    const held: Array<() => void> = []
    const { open } = await serve({ address: 2 }, (_, response) => {
      held.push(() => response.end("ok"))
    })
    const clients = [await open(one), await open(one)]
    for (const { socket } of clients) socket.write(request)
    await expect.poll(() => held.length).toBe(2)
    await isClosed(await open(one))
    const elsewhere = await open(other)
    for (const answer of held) answer()
    for (const { state } of clients) await expect.poll(() => state.received).toBeGreaterThan(0)
    expect([...clients, elsewhere].map(({ state }) => state.closed)).toEqual([false, false, false])
    const next = await open(one)
    await expect.poll(() => clients.filter(({ state }) => state.closed).length).toBe(1)
    expect(next.state.closed).toBe(false)
  })

  it("does not count the connections of a trusted proxy", async () => {
    const { ask, open } = await serve({ address: 1 })
    const clients = [await open(proxy), await open(proxy), await open(proxy)]
    for (const client of clients) await ask(client)
    expect(clients.map(({ state }) => state.closed)).toEqual([false, false, false])
  })

  it("gives a begun head 5 s, in which silent connections make room", async () => {
    let time = 0
    const { begin, open } = await serve({ address: 2 }, undefined, () => time)
    const begun = await open(one)
    await begin(begun)
    const silent = [await open(one), await open(one)] as const
    await isClosed(silent[0])
    time = 4_999
    const third = await open(one)
    await isClosed(silent[1])
    expect(begun.state.closed).toBe(false)
    time = 5_000
    await open(one)
    await isClosed(begun)
    expect(third.state.closed).toBe(false)
  })

  it("keeps so half of an address's connections at most", async () => {
    const { begin, open } = await serve({ address: 4 }, undefined, () => 0)
    const clients = [await open(one), await open(one), await open(one), await open(one)] as const
    for (const client of clients) await begin(client)
    const next = await open(one)
    await isClosed(clients[2])
    expect([clients[0], clients[1], clients[3], next].map(({ state }) => state.closed)).toEqual(
      Array(4).fill(false)
    )
  })

  it("makes room in all at the address with the most connections, if it has more than 8", async () => {
    const { ask, open } = await serve({ all: 10 })
    const lonely = await open(other)
    const crowd: Array<Client> = []
    for (let at = 0; at < 9; at += 1) crowd.push(await open(one))
    const next = await open(proxy)
    await expect.poll(() => crowd[0]?.state.closed).toBe(true)
    for (const open of [lonely, ...crowd.slice(1), next]) await ask(open)
  })

  it("makes room in all at the longest idle one while every address has few", async () => {
    const { ask, open } = await serve({ all: 4 })
    const single = await open(other)
    const small = [await open(one), await open(one)] as const
    const last = await open("127.0.0.14")
    const next = await open("127.0.0.15")
    await isClosed(single)
    for (const open of [...small, last, next]) await ask(open)
  })
})

describe("An answer that is not read", () => {
  const large = Buffer.alloc(32 * 1024 ** 2)

  it("ends its connection after a time; one that is read in time does not", async () => {
    const { ask, open } = await serve({ unreadMillis: 240 }, ({ url }, response) =>
      response.end(url === "/large" ? large : "ok")
    )
    const [reading, stalled] = [await open(one), await open(one)]
    stalled.socket.pause()
    stalled.socket.write("GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
    await ask(reading)
    // The end of a paused stream is not seen; a write to the closed connection is.
    const closing = setInterval(() => stalled.socket.write(" "), 20)
    ends.push(() => clearInterval(closing))
    await isClosed(stalled)
    expect(stalled.socket.bytesRead).toBeLessThan(large.length)
    await ask(reading)
  })

  it.each(["address", "all"])("makes room at the limit of %s when no connection is free", async (limit) => {
    const { ask, open } = await serve({ [limit]: 9 }, ({ url }, response) =>
      response.end(url === "/large" ? large : "ok")
    )
    const stalled: Array<Client> = []
    for (let at = 0; at < 9; at += 1) {
      const client = await open(one)
      stalled.push(client)
      client.socket.once("data", () => client.socket.pause())
      client.socket.write("GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
      await expect.poll(() => client.state.received).toBeGreaterThan(0)
    }
    for (let at = 0; at < 3; at += 1) await ask(await open(limit === "all" ? other : one))
  })
})
