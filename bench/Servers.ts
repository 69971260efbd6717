/** The measured servers as processes: each alone on one core, while load and upstreams have the other. */
import { execFileSync, spawnSync } from "node:child_process"
import { once } from "node:events"
import { readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { type SimulatedUpstreams, upstreamEnvironment } from "../sandbox/SimulatedUpstreams.ts"
import { boot, bundle, type Environment, freePort, root, scratch, start, until } from "../test/world/Fleet.ts"

const serverCore = "0"
const loadCore = "1"

/** Whether each side can have a core of its own. */
export const hasOwnCores = spawnSync("taskset", ["-c", `${serverCore},${loadCore}`, "true"]).status === 0

/** Moves this process, with its threads, to the core of the load. */
export const moveToLoadCore = (): void => {
  if (hasOwnCores) execFileSync("taskset", ["-a", "-p", "-c", loadCore, String(process.pid)])
}

/** The commit to compare with. Its dependencies are of the same versions. */
const commitBefore = "0301b74"

const bundleBefore = (): Promise<string> => {
  const { path } = scratch()
  const archive = execFileSync("git", ["archive", commitBefore], { cwd: root, maxBuffer: 2 ** 28 })
  execFileSync("tar", ["-x", "-C", path], { input: archive })
  symlinkSync(join(root, "node_modules"), join(path, "node_modules"))
  const entry = join(path, "before.ts")
  writeFileSync(entry, 'import "./src/main.ts"\n')
  return bundle(entry)
}

/** This service; itself before it went back to the packages of its owner; and the least that these packages cost. */
const programs = {
  now: () => bundle(),
  before: bundleBefore,
  bare: () => bundle(fileURLToPath(new URL("bare.ts", import.meta.url)))
}
export type ServerName = keyof typeof programs

/** Bundles a program; the result starts it, any number of times. */
export const prepare = async (name: ServerName) => {
  const file = await programs[name]()
  return (world: SimulatedUpstreams, change: Environment = {}, flags: ReadonlyArray<string> = []) =>
    startServer(name, file, world, change, flags)
}

export type Server = Awaited<ReturnType<Awaited<ReturnType<typeof prepare>>>>

/** `USER_HZ`, which Linux fixes at 100 for programs. */
const ticksPerSecond = 100

const cpuMillisOf = (pid: number): number => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /, "")
    .split(" ")
  return ((Number(fields[11]) + Number(fields[12])) * 1_000) / ticksPerSecond
}

/** Starts a server on an empty database, and waits until it is ready. Its log goes to /dev/null. `flags` are Node's. */
const startServer = async (
  name: ServerName,
  file: string,
  world: SimulatedUpstreams,
  change: Environment,
  flags: ReadonlyArray<string>
) => {
  const folder = scratch()
  const [port, adminPort] = [await freePort(), await freePort()]
  const pinned = hasOwnCores ? `taskset -c ${serverCore}` : ""
  const command = ["-c", `exec ${pinned} "$@" > /dev/null`, "sh", process.execPath, ...flags, boot, file]
  const { child, ended, output } = start(
    "sh",
    command,
    {
      NODE_ENV: "production",
      ...upstreamEnvironment(world),
      MUSIC_BIND: `127.0.0.1:${port}`,
      MUSIC_ADMIN_BIND: `127.0.0.1:${adminPort}`,
      MUSIC_DATABASE_PATH: join(folder.path, "music.sqlite"),
      // No limit of this service, of its budget for IAM or of its database refuses a measured request.
      MUSIC_RATE_LIMIT: "off",
      MUSIC_IAM_CALLS_PER_MINUTE: "10000",
      MUSIC_REPORTS_MEGABYTES: "100000",
      MUSIC_TELEMETRY_SPOOL_MEGABYTES: "10000",
      ...change
    },
    { channel: true }
  )
  const url = `http://127.0.0.1:${port}`
  const isReady = () =>
    fetch(`${url}/${name === "bare" ? "healthz" : "readyz"}`).then(
      ({ ok }) => ok,
      () => false
    )
  await until(
    `${name} is ready`,
    () => {
      if (child.exitCode !== null) throw new Error(`${name} ended before it was ready:\n${output()}`)
      return isReady()
    },
    { within: 30_000 }
  )
  const pid = child.pid ?? 0
  return {
    url,
    adminUrl: `http://127.0.0.1:${adminPort}`,
    /** Milliseconds of CPU that the process used so far. */
    cpuMillis: () => cpuMillisOf(pid),
    /** What the process holds, as `boot.mjs` tells it; after a collection with `--expose-gc`. */
    holdings: async (): Promise<Readonly<Record<string, number>>> => {
      child.send({ asks: "holdings" })
      const [held] = await once(child, "message")
      return held
    },
    stop: async () => {
      child.kill("SIGKILL")
      await ended
      folder.remove()
    }
  }
}
