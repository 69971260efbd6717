/** A PostgreSQL with the tools of its version: the server of the packages has no pg_dump, and Debian's refuses a later server. */
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import pg from "pg"
import { freePort } from "../world/Fleet.ts"
import { waitFor } from "../support/Waiting.ts"

const versions = "/usr/lib/postgresql"

/** The folder of its programs. */
const findPrograms = (): string => {
  const found = (existsSync(versions) ? readdirSync(versions) : [])
    .sort((one, other) => Number(other) - Number(one))
    .map((version) => join(versions, version, "bin"))
    .find((folder) => ["initdb", "postgres", "pg_dump"].every((name) => existsSync(join(folder, name))))
  if (found === undefined) throw new Error("PostgreSQL is not installed: apt-get install postgresql")
  return found
}

/** The server refuses to run as root. */
const account = (): { readonly uid?: number; readonly gid?: number } => {
  if (process.getuid?.() !== 0) return {}
  const id = (option: string) => Number(execFileSync("id", [option, "postgres"], { encoding: "utf8" }))
  return { uid: id("-u"), gid: id("-g") }
}

export interface DebianPostgres {
  readonly programs: string
  readonly host: string
  /** Runs statements as superuser in a database. */
  readonly administer: (database: string, ...statements: ReadonlyArray<string>) => Promise<void>
  readonly stop: () => Promise<void>
}

export const startDebianPostgres = async (): Promise<DebianPostgres> => {
  const programs = findPrograms()
  const as = account()
  const folder = mkdtempSync(join(tmpdir(), "music-debian-postgres-"))
  if (as.uid !== undefined && as.gid !== undefined) chownSync(folder, as.uid, as.gid)
  const data = join(folder, "data")
  const init = ["-D", data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
  execFileSync(join(programs, "initdb"), init, { ...as, cwd: folder, stdio: "ignore" })
  const port = await freePort()
  const settings = ["listen_addresses=127.0.0.1", "fsync=off", `unix_socket_directories=${folder}`]
  const server = spawn(
    join(programs, "postgres"),
    ["-D", data, "-p", String(port), ...settings.flatMap((setting) => ["-c", setting])],
    { ...as, cwd: folder, stdio: "ignore" }
  )
  const ended = once(server, "close")
  const host = `127.0.0.1:${port}`
  const administer = async (database: string, ...statements: ReadonlyArray<string>) => {
    const client = new pg.Client({ connectionString: `postgres://postgres@${host}/${database}` })
    await client.connect()
    try {
      for (const statement of statements) await client.query(statement)
    } finally {
      await client.end()
    }
  }
  await waitFor(() => administer("postgres"))
  return {
    programs,
    host,
    administer,
    stop: async () => {
      server.kill("SIGINT")
      await ended
      rmSync(folder, { recursive: true, force: true })
    }
  }
}
