/** The measured servers as processes: each alone on one core, while load and upstreams have the other. */
import { execFileSync, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as pause } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { type SimulatedUpstreams, upstreamEnvironment } from "../sandbox/SimulatedUpstreams.ts"
import { bundle, freePort, root } from "../test/world/Fleet.ts"

/** This service; itself before it went back to the packages of its owner; and the least that these packages cost. */
export const serverNames = ["now", "before", "bare"] as const
export type ServerName = (typeof serverNames)[number]

const serverCore = "0"
const loadCore = "1"

/** Whether each side can have a core of its own. */
export const hasOwnCores = spawnSync("taskset", ["-c", `${serverCore},${loadCore}`, "true"]).status === 0

/** Moves this process, with its threads, to the core of the load. */
export const moveToLoadCore = (): void => {
  if (hasOwnCores) execFileSync("taskset", ["-a", "-p", "-c", loadCore, String(process.pid)])
}

export interface Programs {
  readonly files: Readonly<Record<ServerName, string>>
  readonly remove: () => void
}

/** The commit to compare with. Its dependencies are of the same versions. */
const commitBefore = "0301b74"

const buildBefore = (folder: string): string => {
  const archive = execFileSync("git", ["archive", commitBefore], { cwd: root, maxBuffer: 2 ** 28 })
  execFileSync("tar", ["-x", "-C", folder], { input: archive })
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"))
  execFileSync(process.execPath, ["scripts/build.mjs"], { cwd: folder })
  return join(folder, "dist/main.js")
}

/** Builds the production bundle of this tree. */
const buildNow = (): string => {
  execFileSync(process.execPath, ["scripts/build.mjs"], { cwd: root })
  return join(root, "dist/main.js")
}

/** The programs of some servers, each bundled in the same way. */
export const buildPrograms = async (names: ReadonlyArray<ServerName>): Promise<Programs> => {
  const folder = mkdtempSync(join(tmpdir(), "music-bench-before-"))
  const bare = await bundle(fileURLToPath(new URL("bare.ts", import.meta.url)))
  return {
    files: {
      now: names.includes("now") ? buildNow() : "",
      before: names.includes("before") ? buildBefore(folder) : "",
      bare
    },
    remove: () => rmSync(folder, { recursive: true, force: true })
  }
}

export interface Server {
  readonly url: string
  /** Milliseconds of CPU that the process used so far. */
  readonly cpuMillis: () => number
  readonly stop: () => Promise<void>
}

/** `USER_HZ`, which Linux fixes at 100 for programs. */
const ticksPerSecond = 100

const cpuMillisOf = (pid: number): number => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /, "")
    .split(" ")
  return ((Number(fields[11]) + Number(fields[12])) * 1_000) / ticksPerSecond
}

type Environment = Readonly<Record<string, string>>

/**
 * The same environment for every server, apart from what one bench changes. No limit of this service or of its budget for IAM may refuse a measured request.
 */
const environmentOf = (world: SimulatedUpstreams, port: number, folder: string, change: Environment) => ({
  PATH: process.env.PATH,
  NODE_ENV: "production",
  ...upstreamEnvironment(world),
  MUSIC_BIND: `127.0.0.1:${port}`,
  MUSIC_DATABASE_PATH: join(folder, "music.sqlite"),
  MUSIC_RATE_LIMIT: "off",
  MUSIC_IAM_CALLS_PER_MINUTE: "10000",
  ...change
})

const isReady = (url: string, name: ServerName): Promise<boolean> =>
  fetch(`${url}/${name === "bare" ? "healthz" : "readyz"}`).then(
    async (response) => {
      await response.arrayBuffer()
      return response.ok
    },
    () => false
  )

/** Starts a server on an empty database; its standard output goes to /dev/null. */
export const startServer = async (
  { files }: Programs,
  name: ServerName,
  world: SimulatedUpstreams,
  change: Environment = {}
): Promise<Server> => {
  const folder = mkdtempSync(join(tmpdir(), `music-bench-${name}-`))
  const port = await freePort()
  const command = [process.execPath, files[name]]
  const [program = "", ...parameters] = hasOwnCores ? ["taskset", "-c", serverCore, ...command] : command
  const child = spawn(program, parameters, {
    cwd: root,
    env: environmentOf(world, port, folder, change),
    stdio: ["ignore", "ignore", "inherit"]
  })
  const ended = once(child, "exit")
  const url = `http://127.0.0.1:${port}`
  while (!(await isReady(url, name))) {
    if (child.exitCode !== null) throw new Error(`${name} ended before it was ready`)
    await pause(2)
  }
  const pid = child.pid ?? 0
  return {
    url,
    cpuMillis: () => cpuMillisOf(pid),
    stop: async () => {
      child.kill("SIGKILL")
      await ended
      rmSync(folder, { recursive: true, force: true })
    }
  }
}
