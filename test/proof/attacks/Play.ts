/** Plays all attacks against a server that honest clients use meanwhile, and looks for what is left of each attack afterwards. */
import { type Random, seeded } from "../../durability/Random.ts"
import { until } from "../../durability/Client.ts"
import { startSimulators, type Simulators } from "../../durability/Simulators.ts"
import { mintSlt } from "../../../sandbox/SimulatedUpstreams.ts"
import type { Play } from "../Suite.ts"
import type { Attack, AttackContext, Session } from "./Attack.ts"
import { type AttackedServer, type Holdings, startAttackedServer } from "./AttackedServer.ts"
import { connectionAttacks } from "./Connections.ts"
import { payloadAttacks } from "./Payloads.ts"
import { reflectionAttacks } from "./Reflection.ts"
import { identityAttacks } from "./Identity.ts"
import { honestAddresses, monotonic } from "./HonestClient.ts"
import { type Probes, startProbes, type Verdict } from "./Probes.ts"
import { syntaxAttacks } from "./Syntax.ts"
import { ask } from "./Wire.ts"

/** One list for each class of attacks. */
const lists: ReadonlyArray<ReadonlyArray<Attack>> = [
  connectionAttacks,
  syntaxAttacks,
  identityAttacks,
  reflectionAttacks,
  payloadAttacks
]

/** Connections of a flood in a full run. */
const fullCount = 5_000

/** What an attack may leave behind: caches fill, compiled code stays. */
const heapSlack = 24 * 1024 ** 2
const descriptorSlack = 8

const loginTo = async (world: Simulators, server: AttackedServer, random: Random): Promise<Session> => {
  const answer = await ask(server, {
    path: "/api/v1/auth/login",
    headers: {
      "Idempotency-Key": `login-${Array.from({ length: 8 }, () => random.below(10_000)).join("-")}`
    },
    body: JSON.stringify({ slt: mintSlt(world) }),
    from: honestAddresses[0]
  })
  if (answer?.status !== 200) throw new Error(`The login answered ${answer?.status} ${answer?.body}`)
  const { access_token, org_id, refresh_token } = JSON.parse(answer.body)
  return { accessToken: access_token, refreshToken: refresh_token, organisation: org_id }
}

/** Waits until the server holds what it held before; what it still holds otherwise. */
const waitForRelease = async (server: AttackedServer, before: Holdings): Promise<ReadonlyArray<string>> => {
  let now = before
  const isReleased = async () => {
    now = await server.holdings()
    return now.heap <= before.heap + heapSlack && now.descriptors <= before.descriptors + descriptorSlack
  }
  return until("", isReleased, { every: 200, within: 60_000 }).then(
    () => [],
    () => [
      `the server holds ${now.heap} bytes and ${now.descriptors} descriptors, before ${before.heap} and ${before.descriptors}`
    ]
  )
}

/** A line is one JSON object, in plain characters; a defect is logged as an error. */
const checkLog = (server: AttackedServer): ReadonlyArray<string> =>
  server.lines().flatMap((line) => {
    if (!server.logsJson) return []
    try {
      const { cause, level, message, time } = JSON.parse(line)
      if (typeof message !== "string" || typeof time !== "string") return [`a log line without text: ${line}`]
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there.
      if (/[\u0000-\u001f\u007f-\u009f]/.test(line)) return [`a log line with control characters: ${line}`]
      return level === "error" || level === "fatal" ? [`the server logged an error: ${message} ${cause}`] : []
    } catch {
      return [`a log line that is no JSON: ${line}`]
    }
  })

/** Plays some attacks, in this order; those apart begin first and end last. */
export const playAttacks =
  (chosen: ReadonlyArray<Attack>): Play =>
  async ({ count = fullCount, log, seed }) => {
    const world = await startSimulators()
    const servers: Array<AttackedServer> = []
    let probes: Probes | undefined
    const startServer = async (environment: Readonly<Record<string, string>> = {}) => {
      const server = await startAttackedServer(world, environment)
      servers.push(server)
      return server
    }
    try {
      const [server, control] = await Promise.all([startServer(), startServer()])
      const random = seeded(seed)
      const session = await loginTo(world, server, random)
      probes = await startProbes(control, session)
      const { judge, unwatch, watch } = probes
      watch(server)
      const startedAt = monotonic()
      const verdicts: Array<Verdict> = []

      const playOne = async (attack: Attack, at: number): Promise<ReadonlyArray<string>> => {
        const own: Array<AttackedServer> = []
        const ownRandom = seeded(seed * 1_000 + at)
        const context: AttackContext = {
          world,
          server,
          session,
          login: () => loginTo(world, server, ownRandom),
          start: async (environment) => {
            const started = await startServer(environment)
            own.push(started)
            watch(started)
            return started
          },
          random: ownRandom,
          count,
          log
        }
        const before = await server.holdings()
        const began = monotonic()
        const broken = await attack
          .play(context)
          .catch((error: unknown) => [
            error instanceof Error ? (error.stack ?? error.message) : String(error)
          ])
        // What the attack leaves behind is cleared away at the cost of honest clients as well.
        const left = attack.apart === true ? [] : await waitForRelease(server, before)
        const ended = monotonic()
        const slow: Array<string> = []
        for (const one of attack.apart === true ? own : [server]) {
          const verdict = await judge(one, began, ended)
          verdicts.push(verdict)
          slow.push(...verdict.broken)
          log(
            `${attack.name}: slowest row ${verdict.row} ms, control ${verdict.controlRow} ms, slowest ${verdict.slowest} ms`
          )
        }
        for (const one of own) unwatch(one)
        const ends = own.flatMap((one) => one.ended() ?? []).map((end) => `its server ended: ${end}`)
        const logged = own.flatMap(checkLog)
        await Promise.all(own.map((one) => one.stop()))
        const all = [...broken, ...slow, ...ends, ...logged, ...left]
        log(`${attack.name}: ${all.length} broken, ${Math.round(monotonic() - began)} ms`)
        return all.map((fault) => `${attack.name}, seed ${seed}: ${fault}`)
      }

      const apart = chosen.map((attack, at) =>
        attack.apart === true ? playOne(attack, at) : Promise.resolve([])
      )
      const broken: Array<string> = []
      for (const [at, attack] of chosen.entries())
        if (attack.apart !== true && server.ended() === undefined) broken.push(...(await playOne(attack, at)))
      broken.push(...(await Promise.all(apart)).flat())
      // Some attacks are shorter than a row.
      const whole = await judge(server, startedAt, monotonic(), { isWhole: true })
      verdicts.push(whole)
      broken.push(...whole.broken.map((fault) => `the attacks, seed ${seed}: ${fault}`))
      broken.push(...checkLog(server))
      if (server.ended() !== undefined) broken.push(`the server ended: ${server.ended()}`)
      return {
        figures: {
          attacks: chosen.length,
          connections: count,
          probes: whole.count,
          "slowest probe, ms": Math.max(0, ...verdicts.map(({ slowest }) => slowest)),
          "slowest row, ms": Math.max(0, ...verdicts.map(({ row }) => row)),
          "of the control, ms": Math.max(0, ...verdicts.map(({ controlRow }) => controlRow))
        },
        broken
      }
    } finally {
      probes?.end()
      await Promise.all(servers.map((server) => server.stop()))
      await world.close()
    }
  }

export const play = playAttacks(lists.flat())
