/** The server as a process of its own, the measurements of what it holds, and what every attack on it has and gets. */
import { fork } from "node:child_process"
import { once } from "node:events"
import { fileURLToPath } from "node:url"
import type { Random } from "../../durability/Random.ts"
import { scratch } from "../../durability/Scratch.ts"
import { environmentOf, type Simulators } from "../../durability/Simulators.ts"
import { root } from "../../support/Process.ts"

export interface AttackContext {
  readonly server: AttackedServer
  /** A further server against the same upstreams, with further settings. It stops after the attack. */
  readonly start: (environment: Readonly<Record<string, string>>) => Promise<AttackedServer>
  /** Seeded for this attack: the same seed plays the same attack. */
  readonly random: Random
  /** Connections of a flood. */
  readonly count: number
}

export interface Attack {
  readonly name: string
  /** Plays beside all others, because it mostly waits. It must use a server of its own. */
  readonly apart?: boolean
  /** What broke, each with what is needed to play it again; empty when the service held. */
  readonly play: (context: AttackContext) => Promise<ReadonlyArray<string>>
}

/** What the process holds after a collection of garbage: bytes, and open files. */
export interface Holdings {
  readonly heap: number
  readonly descriptors: number
}

export interface AttackedServer {
  readonly pid: number
  readonly port: number
  /** Whether its log is for programs. */
  readonly logsJson: boolean
  /** The lines of its log. */
  readonly lines: () => ReadonlyArray<string>
  readonly holdings: () => Promise<Holdings>
  /** Undefined while it runs; afterwards how it ended. */
  readonly ended: () => string | undefined
  readonly stop: () => Promise<void>
}

const gauge = fileURLToPath(new URL("./Gauge.mjs", import.meta.url))

/** Request limits as in production; the budget for IAM is large, because it is no subject of these attacks. */
const defaults = { MUSIC_RATE_LIMIT: "on", MUSIC_IAM_CALLS_PER_MINUTE: "10000" }

/** Starts `src/main.ts` against the upstreams. It ends with this process. */
export const startAttackedServer = async (
  world: Simulators,
  environment: Readonly<Record<string, string>> = {}
): Promise<AttackedServer> => {
  const folder = scratch()
  const child = fork("src/main.ts", {
    cwd: root,
    silent: true,
    execArgv: ["--expose-gc", "--import", "tsx", "--import", gauge],
    env: {
      PATH: process.env.PATH,
      ...environmentOf(world),
      ...defaults,
      MUSIC_DATABASE_PATH: `${folder.path}/music.sqlite`,
      ...environment
    }
  })
  let log = ""
  let ended: string | undefined
  const closed = once(child, "close").then(([code, signal]) => {
    ended = `code ${code}, signal ${signal}: ${log.slice(-2_000)}`
    folder.remove()
  })
  let port = 0
  await new Promise<void>((resolve, reject) => {
    const keep = (part: string) => {
      log += part
      if (port === 0) port = Number(/\burl"?: ?["']http:\/\/127\.0\.0\.1:(\d+)/.exec(log)?.[1] ?? 0)
      if (port !== 0) resolve()
    }
    for (const stream of [child.stdout, child.stderr]) stream?.setEncoding("utf8").on("data", keep)
    void closed.then(() => reject(new Error(`The server did not start: ${ended}`)))
  })
  return {
    pid: child.pid ?? 0,
    port,
    logsJson: environment.MUSIC_LOG_FORMAT !== "pretty",
    lines: () => log.split("\n").slice(0, -1),
    holdings: async () => {
      if (child.connected) child.send("holdings")
      const [holdings]: ReadonlyArray<Holdings> = await Promise.race([
        once(child, "message"),
        closed.then(() => [])
      ])
      if (holdings === undefined) throw new Error(`The server ended: ${ended}`)
      return holdings
    },
    ended: () => ended,
    stop: async () => {
      child.kill("SIGKILL")
      await closed
    }
  }
}
