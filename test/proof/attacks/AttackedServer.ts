/** The server as a process of its own, and the measurements of what it holds. */
import { fork } from "node:child_process"
import { once } from "node:events"
import { fileURLToPath } from "node:url"
import { environmentOf, type Simulators } from "../../durability/Simulators.ts"
import { scratch } from "../../durability/Scratch.ts"
import { root } from "../../support/Process.ts"

/** What the process holds after a collection of garbage. */
export interface Holdings {
  /** Bytes. */
  readonly heap: number
  /** Bytes. */
  readonly resident: number
  readonly descriptors: number
}

export interface AttackedServer {
  readonly pid: number
  readonly port: number
  readonly url: string
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
  const lines: Array<string> = []
  let rest = ""
  let ended: string | undefined
  const closed = once(child, "close").then(([code, signal]) => {
    ended = `code ${code}, signal ${signal}: ${lines.slice(-5).join(" ")}`
    folder.remove()
  })
  const listening = new Promise<string>((resolve, reject) => {
    const keep = (part: string) => {
      const [first = "", ...further] = part.split("\n")
      const before = lines.length
      rest += first
      for (const line of further) {
        lines.push(rest)
        rest = line
      }
      for (const line of lines.slice(before)) {
        const url = /\burl"?: ?["'](http:\/\/127[0-9.:]+)/.exec(line)?.[1]
        if (url !== undefined) resolve(url)
      }
    }
    for (const stream of [child.stdout, child.stderr]) stream?.setEncoding("utf8").on("data", keep)
    void closed.then(() => reject(new Error(`The server did not start: ${lines.join("\n")}${rest}`)))
  })
  const url = await listening
  return {
    url,
    pid: child.pid ?? 0,
    port: Number(new URL(url).port),
    logsJson: environment.MUSIC_LOG_FORMAT !== "pretty",
    lines: () => lines,
    holdings: async () => {
      const answer: Promise<ReadonlyArray<Holdings>> = Promise.race([
        once(child, "message").then(([message]) => [message]),
        closed.then(() => [])
      ])
      if (child.connected) child.send("holdings")
      const [holdings] = await answer
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
