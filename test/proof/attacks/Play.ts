/** Plays all attacks against a server that honest clients use meanwhile. */
import { mintSlt } from "../../../sandbox/SimulatedUpstreams.ts"
import { seeded } from "../../world/Arbitraries.ts"
import { bundle, type Environment, startSimulators, until } from "../../world/Fleet.ts"
import type { Play } from "../Suite.ts"
import { type Attack, type AttackedServer, type Holdings, startAttackedServer } from "./AttackedServer.ts"
import { connectionAttacks } from "./Connections.ts"
import { honestAddresses, monotonic, startProbes, type Verdict } from "./Probes.ts"
import { searchSlowTexts } from "./Texts.ts"
import { ask, textOf } from "./Wire.ts"

const attacks: ReadonlyArray<Attack> = [...connectionAttacks, searchSlowTexts]

/** Connections of a flood in a full run. */
const fullCount = 5_000

/** What an attack may leave behind: caches fill, compiled code stays. */
const heapSlack = 24 * 1024 ** 2
const descriptorSlack = 8

/** Waits until the server holds what it held before; what it still holds otherwise. */
const waitForRelease = async (server: AttackedServer, before: Holdings): Promise<ReadonlyArray<string>> => {
  let now = before
  const isReleased = async () => {
    now = await server.holdings()
    return now.heap <= before.heap + heapSlack && now.descriptors <= before.descriptors + descriptorSlack
  }
  return until("", isReleased, { every: 200, within: 60_000 }).then(
    () => [],
    () => [`the server holds ${JSON.stringify(now)}, before ${JSON.stringify(before)}`]
  )
}

/** A line is one JSON object, in plain characters; a defect is logged as an error. */
const checkLog = (server: AttackedServer): ReadonlyArray<string> =>
  server.lines().flatMap((line) => {
    try {
      const { cause, level, message, time } = JSON.parse(line)
      if (typeof message !== "string" || typeof time !== "string") return [`a log line without text: ${line}`]
      if (/\p{Cc}/u.test(line)) return [`a log line with control characters: ${line}`]
      return level === "error" || level === "fatal" ? [`the server logged an error: ${message} ${cause}`] : []
    } catch {
      return [`a log line that is no JSON: ${line}`]
    }
  })

/** Those apart begin first and end last; the others are played in this order. */
export const play: Play = async ({ count = fullCount, log, seed }) => {
  const broken: Array<string> = []
  const file = await bundle()
  const world = await startSimulators()
  const servers: Array<AttackedServer> = []
  const startServer = async (environment: Environment = {}) => {
    const server = await startAttackedServer(file, world, environment)
    servers.push(server)
    return server
  }
  let end = () => {}
  try {
    const [server, control] = await Promise.all([startServer(), startServer()])
    const login = await ask(server, {
      path: "/api/v1/auth/login",
      headers: { "Idempotency-Key": "the-login-of-honest-clients" },
      body: JSON.stringify({ slt: mintSlt(world) }),
      from: honestAddresses[0]
    })
    const { access_token } = JSON.parse(textOf(login))
    const probes = await startProbes(control, access_token)
    end = probes.end
    probes.watch(server)
    const startedAt = monotonic()
    const verdicts: Array<Verdict> = []

    const playOne = async (attack: Attack, at: number): Promise<void> => {
      const own: Array<AttackedServer> = []
      const start = async (environment: Environment) => {
        const started = await startServer(environment)
        own.push(started)
        probes.watch(started)
        return started
      }
      const before = await server.holdings()
      const began = monotonic()
      const found = await attack
        .play({ server, start, random: seeded(seed * 1_000 + at), count })
        .catch((error: unknown) => [error instanceof Error ? (error.stack ?? error.message) : String(error)])
      // What the attack leaves behind is cleared away at the cost of honest clients as well.
      const left = attack.apart === true ? [] : await waitForRelease(server, before)
      const all = [...found, ...left]
      for (const one of attack.apart === true ? own : [server]) {
        const verdict = await probes.judge(one, began, monotonic())
        verdicts.push(verdict)
        all.push(...verdict.broken)
        log(`${attack.name}: slowest row ${verdict.row} ms, control ${verdict.controlRow} ms`)
      }
      for (const one of own) {
        probes.unwatch(one)
        all.push(...checkLog(one))
        const ended = one.ended()
        if (ended !== undefined) all.push(`its server ended: ${ended}`)
        await one.stop()
      }
      log(`${attack.name}: ${all.length} broken, ${Math.round(monotonic() - began)} ms`)
      broken.push(...all.map((fault) => `${attack.name}, seed ${seed}: ${fault}`))
    }

    const apart = attacks.map((attack, at) => (attack.apart === true ? playOne(attack, at) : undefined))
    for (const [at, attack] of attacks.entries())
      if (attack.apart !== true && server.ended() === undefined) await playOne(attack, at)
    await Promise.all(apart)
    // Some attacks are shorter than a row.
    const whole = await probes.judge(server, startedAt, monotonic(), true)
    verdicts.push(whole)
    broken.push(...whole.broken, ...checkLog(server))
    if (server.ended() !== undefined) broken.push(`the server ended: ${server.ended()}`)
    const most = (of: (verdict: Verdict) => number) => Math.max(...verdicts.map(of))
    return {
      figures: {
        attacks: attacks.length,
        connections: count,
        probes: whole.count,
        "slowest probe, ms": most(({ slowest }) => slowest),
        "slowest row, ms": most(({ row }) => row),
        "of the control, ms": most(({ controlRow }) => controlRow)
      },
      broken
    }
  } finally {
    end()
    await Promise.all(servers.map((server) => server.stop()))
    await world.close()
  }
}
