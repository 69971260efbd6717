/** Faults of PostgreSQL: a server that stops and starts, a proxy that falls silent, and queries beside the server. */
import { once } from "node:events"
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer, connect as openSocket, type Server, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import pg from "pg"
import { inject } from "vitest"
import { embeddedPostgres, freshDatabase } from "../support/Postgres.ts"
import { freePort } from "../support/Process.ts"
import type { ReadNumber } from "./Server.ts"

/** An empty database on the server of the whole run, dropped with the scope. */
export const freshPostgres = Effect.map(
  Effect.acquireRelease(
    Effect.promise(() => freshDatabase(inject("postgres").server)),
    ({ drop }) => Effect.promise(drop)
  ),
  ({ url }) => url
)

/** Runs a statement as superuser, on a connection of its own. */
export const statement = (url: string, text: string) =>
  Effect.promise(async () => {
    const client = new pg.Client({ connectionString: url })
    client.on("error", () => undefined)
    await client.connect()
    try {
      return (await client.query<Record<string, unknown>>(text)).rows
    } finally {
      await client.end().catch(() => undefined)
    }
  })

export const readFromPostgres =
  (url: string): ReadNumber =>
  (text) =>
    Effect.map(statement(url, text), ([row]) => Number(Object.values(row ?? {})[0]))

/** Ends every other connection to the database, as a failover does. */
export const cutConnections = (url: string) =>
  statement(
    url,
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid()`
  )

/** A server that can be stopped and started again on the same port and data; removed with the scope. */
export const restartablePostgres = Effect.acquireRelease(
  Effect.promise(async () => {
    const EmbeddedPostgres = await embeddedPostgres()
    const folder = mkdtempSync(join(tmpdir(), "music-faults-postgres-"))
    // The server's own account must reach its data inside.
    chmodSync(folder, 0o755)
    const port = await freePort()
    const server = new EmbeddedPostgres({
      databaseDir: join(folder, "data"),
      user: "postgres",
      password: "postgres",
      port,
      persistent: true,
      createPostgresUser: process.getuid?.() === 0,
      initdbFlags: ["--locale=C", "--encoding=UTF8", "--no-sync"],
      postgresFlags: ["-c", "fsync=off", "-c", "listen_addresses=127.0.0.1"],
      onLog: () => undefined
    })
    await server.initialise()
    await server.start()
    return { folder, server, url: `postgres://postgres:postgres@127.0.0.1:${port}/postgres` }
  }),
  ({ folder, server }) =>
    Effect.promise(async () => {
      await server.stop()
      rmSync(folder, { recursive: true, force: true })
    })
).pipe(
  Effect.map(({ folder, server, url }) => {
    const answers = statement(url, "SELECT 1").pipe(
      Effect.sandbox,
      Effect.retry({ schedule: Schedule.spaced("50 millis"), times: 200 })
    )
    const stop = Effect.promise(() => server.stop())
    return {
      url,
      stop,
      start: Effect.promise(() => server.start()),
      /** Restarts as a standby, which refuses writes until it is promoted. */
      standBy: Effect.gen(function* () {
        yield* stop
        writeFileSync(join(folder, "data", "standby.signal"), "")
        // The package waits until the server takes writes.
        void server.start().catch(() => undefined)
        yield* answers
      }),
      promote: statement(url, "SELECT pg_promote()")
    }
  })
)

export interface Way {
  /** The database's URL through the proxy. */
  readonly url: string
  /** Accepts connections and bytes and answers nothing, like a machine that hangs. */
  readonly silence: Effect.Effect<void>
  readonly speak: Effect.Effect<void>
}

/** A proxy to a database that the test can block; closed with the scope. */
export const wayTo = (target: string) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(() => openWay(target)),
      ({ close }) => Effect.promise(close)
    ),
    ({ way }) => way
  )

const openWay = async (
  target: string
): Promise<{ readonly way: Way; readonly close: () => Promise<void> }> => {
  const { hostname, port } = new URL(target)
  const pairs = new Set<readonly [Socket, Socket]>()
  let silent = false
  const server: Server = createServer((near) => {
    const far = openSocket(Number(port), hostname)
    const pair = [near, far] as const
    pairs.add(pair)
    for (const [from, to] of [pair, [far, near] as const]) {
      from.on("data", (bytes) => to.write(bytes))
      from.on("error", () => undefined)
      from.on("close", () => {
        to.destroy()
        pairs.delete(pair)
      })
      if (silent) from.pause()
    }
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  const url = new URL(target)
  url.port = String(typeof address === "object" && address !== null ? address.port : 0)
  return {
    way: {
      url: url.href,
      silence: Effect.sync(() => {
        silent = true
        for (const pair of pairs) for (const socket of pair) socket.pause()
      }),
      speak: Effect.sync(() => {
        silent = false
        for (const pair of pairs) for (const socket of pair) socket.resume()
      })
    },
    close: async () => {
      for (const pair of pairs) for (const socket of pair) socket.destroy()
      server.close()
      await once(server, "close")
    }
  }
}
