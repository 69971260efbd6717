/** The server as a process of its own, the measurements of what it holds, and what every attack on it has and gets. */
import { once } from "node:events"
import type { Random } from "../../world/Arbitraries.ts"
import {
  type Environment,
  environmentOf,
  kill,
  scratch,
  type Simulators,
  startBundle,
  urlOf
} from "../../world/Fleet.ts"

interface AttackContext {
  readonly server: AttackedServer
  /** A further server against the same upstreams, with further settings. It stops after the attack. */
  readonly start: (environment: Environment) => Promise<AttackedServer>
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

/** Request limits as in production; the budget for IAM is large, because it is no subject of these attacks. */
const defaults = { MUSIC_RATE_LIMIT: "on", MUSIC_IAM_CALLS_PER_MINUTE: "10000" }

export const startAttackedServer = async (file: string, world: Simulators, environment: Environment = {}) => {
  const folder = scratch()
  const place = { MUSIC_DATABASE_PATH: `${folder.path}/music.sqlite` }
  const running = startBundle(file, { ...environmentOf(world), ...defaults, ...place, ...environment }, [
    "--expose-gc"
  ])
  const { child, output } = running
  let end: string | undefined
  const ended = running.ended.then(({ code, signal }) => {
    end = `code ${code}, signal ${signal}: ${output().slice(-2_000)}`
    folder.remove()
  })
  return {
    pid: child.pid ?? 0,
    port: Number(new URL(await urlOf(running)).port),
    lines: () => output().split("\n").slice(0, -1),
    holdings: async (): Promise<Holdings> => {
      if (child.connected) child.send({ asks: "holdings" })
      const [holdings]: ReadonlyArray<Holdings> = await Promise.race([
        once(child, "message"),
        ended.then(() => [])
      ])
      if (holdings === undefined) throw new Error(`The server ended: ${end}`)
      return holdings
    },
    /** Undefined while it runs; afterwards how it ended. */
    ended: () => end,
    stop: () => kill(running)
  }
}

export type AttackedServer = Awaited<ReturnType<typeof startAttackedServer>>
