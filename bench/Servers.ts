/** The measured servers as processes: each alone on one core, while load and upstreams have the other. */
import { execFileSync, spawnSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { type SimulatedUpstreams, upstreamEnvironment } from "../sandbox/SimulatedUpstreams.ts"
import {
  boot,
  bundle,
  type Environment,
  freePort,
  kill,
  root,
  scratch,
  start,
  until,
  watch
} from "../test/world/Fleet.ts"

const serverCore = "0"
const loadCore = "1"

/** Whether each side can have a core of its own. */
export const hasOwnCores = spawnSync("taskset", ["-c", `${serverCore},${loadCore}`, "true"]).status === 0

/** Moves this process, with its threads, to the core of the load. */
export const moveToLoadCore = (): void => {
  if (hasOwnCores) execFileSync("taskset", ["-a", "-p", "-c", loadCore, String(process.pid)])
}

/** The commit to compare with. */
const commitBefore = "0301b74"

const bundleBefore = (): Promise<string> => {
  const { path } = scratch()
  const archive = execFileSync("git", ["archive", commitBefore], { cwd: root, maxBuffer: 2 ** 28 })
  execFileSync("tar", ["-x", "-C", path], { input: archive })
  execFileSync("npm", ["ci", "--no-audit", "--no-fund"], { cwd: path, stdio: "ignore" })
  const entry = join(path, "before.ts")
  writeFileSync(entry, 'import "./src/main.ts"\n')
  return bundle(entry, path)
}

/** This service; itself before it went back to the packages of its owner; and the least that these packages cost. */
const programs = {
  now: () => bundle(),
  before: bundleBefore,
  bare: () => bundle(fileURLToPath(new URL("bare.ts", import.meta.url)))
}
export type ServerName = keyof typeof programs

/** Bundles a program; the result starts it, any number of times, on an empty database, and waits until it is ready. `flags` are Node's. */
export const prepare = async (name: ServerName) => {
  const file = await programs[name]()
  return async (world: SimulatedUpstreams, change: Environment = {}, flags: ReadonlyArray<string> = []) => {
    const folder = scratch()
    const [port, adminPort] = [await freePort(), await freePort()]
    const pinned = hasOwnCores ? `taskset -c ${serverCore}` : ""
    const command = ["-c", `exec ${pinned} "$@" > /dev/null`, "sh", process.execPath, ...flags, boot, file]
    const environment = {
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
    }
    const running = start("sh", command, environment, { channel: true })
    const url = `http://127.0.0.1:${port}`
    const isReady = async () => {
      if (running.child.exitCode !== null) throw new Error(`${name} does not start:\n${running.output()}`)
      const answer = await fetch(`${url}/${name === "bare" ? "healthz" : "readyz"}`).catch(() => undefined)
      return answer?.ok === true
    }
    await until(`${name} is ready`, isReady, { within: 30_000 })
    return {
      ...watch(running),
      url,
      adminUrl: `http://127.0.0.1:${adminPort}`,
      stop: async () => {
        await kill(running)
        folder.remove()
      }
    }
  }
}

export type Server = Awaited<ReturnType<Awaited<ReturnType<typeof prepare>>>>
