/** Plays each attack against a server of its own, which honest clients use meanwhile. */
import { setTimeout as pause } from "node:timers/promises"
import {
  bundle,
  environmentOf,
  kill,
  scratch,
  type Simulators,
  startBundle,
  startSimulators,
  until,
  urlOf,
  watch
} from "../../world/Fleet.ts"
import type { Play } from "../Suite.ts"
import { type Attack, askFrom, attacks } from "./Attacks.ts"

/** Connections of a flood in a full run. */
const fullCount = 5_000

const startServer = async (file: string, world: Simulators, { environment }: Attack) => {
  const folder = scratch()
  const place = { MUSIC_DATABASE_PATH: `${folder.path}/music.sqlite` }
  const settings = { ...environmentOf(world), MUSIC_RATE_LIMIT: "on", ...place, ...environment }
  const running = startBundle(file, settings, ["--expose-gc"])
  return {
    ...watch(running),
    port: Number(new URL(await urlOf(running)).port),
    lines: () => running.output().split("\n").slice(0, -1),
    stop: async () => {
      await kill(running)
      folder.remove()
    }
  }
}

export type Server = Awaited<ReturnType<typeof startServer>>

/** Four times a second a new connection from an address that no attack uses. Ends with what got no 200. */
const startHonest = ({ port }: Server) => {
  const asked: Array<Promise<string | undefined>> = []
  const timer = setInterval(() => {
    const path = asked.length % 2 === 0 ? "/healthz" : "/readyz"
    asked.push(askFrom(port, "127.0.0.200", path))
  }, 250)
  return async (): Promise<ReadonlyArray<string>> => {
    // Some attacks are short.
    while (asked.length < 4) await pause(250)
    clearInterval(timer)
    return (await Promise.all(asked)).filter((fault) => fault !== undefined).slice(0, 3)
  }
}

/** What an attack may leave behind: caches fill, compiled code stays. */
const heapSlack = 24 * 1024 ** 2
const descriptorSlack = 8

/** Waits until the server holds what it held before; what it still holds otherwise. */
const waitForRelease = async (
  server: Server,
  before: Readonly<Record<string, number>>
): Promise<ReadonlyArray<string>> => {
  let now = before
  const isWithin = (what: string, slack: number) => Number(now[what]) <= Number(before[what]) + slack
  const isReleased = async () => {
    now = await server.holdings()
    return isWithin("heap", heapSlack) && isWithin("descriptors", descriptorSlack)
  }
  return until("", isReleased, { every: 200, within: 60_000 }).then(
    () => [],
    () => [`the server holds ${JSON.stringify(now)}, before ${JSON.stringify(before)}`]
  )
}

/** A line is one JSON object; a defect is logged as an error. */
const isWrongLine = (line: string): boolean => {
  try {
    return ["error", "fatal"].includes(JSON.parse(line).level)
  } catch {
    return true
  }
}

export const play: Play = async ({ count = fullCount, log, seed }) => {
  const file = await bundle()
  const world = await startSimulators()
  const playOne = async (attack: Attack): Promise<ReadonlyArray<string>> => {
    const server = await startServer(file, world, attack)
    try {
      const before = await server.holdings()
      const begun = server.cpuMillis()
      const endHonest = startHonest(server)
      const found = [...(await attack.play(server, count)), ...(await endHonest())]
      const left = await waitForRelease(server, before)
      const cpu = server.cpuMillis() - begun
      const isDear = cpu > (attack.mostCpu ?? Number.POSITIVE_INFINITY)
      const all = [...found, ...left, ...(isDear ? [`it costs ${cpu} ms of the processor`] : [])]
      log(`${attack.name}: ${all.length} broken, ${cpu} ms of the processor`)
      return [...all, ...server.lines().filter(isWrongLine)].map((fault) => `${attack.name}: ${fault}`)
    } finally {
      await server.stop()
    }
  }
  try {
    const broken = (await Promise.all(attacks.map(playOne))).flat()
    return { figures: { attacks: attacks.length, connections: count, seed }, broken }
  } finally {
    await world.close()
  }
}
