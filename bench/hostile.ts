/**
 * `npm run bench:hostile`: what the dearest bodies cost that one anonymous address may send, beside plain ones of the same size; and how
 * long an honest caller waits beside eight of them a second. The server has one core, load and upstreams the other.
 */
import { setTimeout as pause } from "node:timers/promises"
import { parseArgs } from "node:util"
import * as Effect from "effect/Effect"
import { startUpstreams } from "../sandbox/SimulatedUpstreams.ts"
import { hostileKinds } from "./HostileBodies.ts"
import { closedLoop, median, openLoop } from "./Load.ts"
import { login, type Outgoing, requestsOf } from "./Requests.ts"
import { moveToLoadCore, prepare, type Server } from "./Servers.ts"

const { values } = parseArgs({
  options: { rounds: { type: "string", default: "30" }, seconds: { type: "string", default: "10" } }
})
const rounds = Number(values.rounds)
const seconds = Number(values.seconds)

/** Milliseconds by which the honest caller's median may grow. */
const growthBound = 50
const hostilePerSecond = 8

const print = (line: string) => process.stdout.write(`${line}\n`)
const failures: Array<string> = []
const judge = (value: number, bound: number, rule: string): string => {
  if (value > bound) failures.push(rule)
  return `${value.toFixed(1)} (≤ ${bound}: ${value > bound ? "MISSED" : "met"})`
}

const ask = async (url: string, { body = "", headers, method, path }: Outgoing): Promise<number> => {
  const response = await fetch(url + path, { method, headers, body })
  await response.arrayBuffer()
  return response.status
}

/** The server's processor time of one request, and the median time of its answer, in milliseconds. */
const costOf = async ({ cpuMillis, url }: Server, requests: ReadonlyArray<Outgoing>, status: number) => {
  const times: Array<number> = []
  const before = cpuMillis()
  for (const request of requests) {
    const began = performance.now()
    const answered = await ask(url, request)
    times.push(performance.now() - began)
    // A quota that is refilled meanwhile lets one through.
    if (answered !== status && answered !== 200) throw new Error(`${request.path} answered ${answered}`)
  }
  return { cpu: (cpuMillis() - before) / requests.length, time: median(times) }
}

/** Waits until the server has no work left, such as shipping what it stored. */
const settle = async ({ cpuMillis }: Server): Promise<void> => {
  for (let before = Number.NaN; cpuMillis() !== before; ) {
    before = cpuMillis()
    await pause(300)
  }
}

let addresses = 0
const newAddress = (): string => {
  addresses += 1
  return `198.51.${Math.floor(addresses / 250)}.${addresses % 250}`
}

const measure = async (server: Server) => {
  print("kind | ms of the server's processor | ms until the answer | a plain body | ratio")
  for (const { bound, name, prepare: first, ratio, request, spread, status } of hostileKinds) {
    const costs: Array<Awaited<ReturnType<typeof costOf>>> = []
    for (const plain of [true, false]) {
      const address = newAddress()
      for (const outgoing of first(address, plain)) await ask(server.url, outgoing)
      const requests = Array.from({ length: rounds }, () => request(spread ? newAddress() : address, plain))
      await costOf(server, requests.slice(0, 3), status)
      await settle(server)
      costs.push(await costOf(server, requests.slice(3), status))
    }
    const [plain = { cpu: 0, time: 0 }, hostile = plain] = costs
    print(
      [
        name,
        judge(hostile.cpu, bound, `${name}: ${bound} ms`),
        hostile.time.toFixed(1),
        plain.cpu.toFixed(1),
        judge(hostile.cpu / plain.cpu, ratio, `${name}: ${ratio} times a plain body`)
      ].join(" | ")
    )
  }
}

/** An honest caller asks for its session all the time; the median of its answers, in milliseconds. */
const honest = (url: string, me: Outgoing) => closedLoop(url, 1, { seconds }, () => me)

const besideEach = async (server: Server, me: Outgoing) => {
  const { url } = server
  const caller = { ...me, headers: { ...me.headers, "x-forwarded-for": "192.0.2.1" } }
  await honest(url, caller)
  const alone = await honest(url, caller)
  print("")
  print(`an honest caller beside | median ms | ms more than alone (${alone.p50.toFixed(1)})`)
  for (const { name, prepare: first, request } of hostileKinds) {
    const address = newAddress()
    for (const one of first(address, false)) await ask(url, one)
    await settle(server)
    const rate = { perSecond: hostilePerSecond, seconds, connections: 16 }
    const [beside] = await Promise.all([
      honest(url, caller),
      openLoop(url, rate, () => request(address, false))
    ])
    print(
      [
        `${hostilePerSecond} a second of ${name}`,
        beside.p50.toFixed(1),
        judge(beside.p50 - alone.p50, growthBound, `an honest caller beside ${name}`)
      ].join(" | ")
    )
  }
}

moveToLoadCore()
const start = await prepare("now")
const program = Effect.flatMap(
  startUpstreams(() => Date.now()),
  (world) =>
    Effect.promise(async () => {
      const server = await start(world, {
        MUSIC_RATE_LIMIT: "on",
        MUSIC_TRUSTED_PROXIES: "127.0.0.1",
        // Filing is paced and happens later.
        MUSIC_GITHUB_TOKEN: "",
        MUSIC_GITHUB_REPOSITORY: ""
      })
      try {
        const [caller] = await login(server.url, world, 1)
        await measure(server)
        await besideEach(server, requestsOf(world).me(caller?.token ?? ""))
      } finally {
        await server.stop()
      }
    })
)
await Effect.runPromise(Effect.scoped(program))
print("")
print(failures.length === 0 ? "Every bound holds." : `Missed: ${failures.join("; ")}.`)
process.exit(failures.length === 0 ? 0 : 1)
