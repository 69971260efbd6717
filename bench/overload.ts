/**
 * `npm run bench:overload`: the server at twice the rate that it can serve, then with an identity service that takes 5 s. It should
 * refuse early with 503 `overloaded`, answer `healthz` within 100 ms, keep the deadline of what it accepted, and recover within
 * seconds. The server has one core, load and probe the other.
 */
import { once } from "node:events"
import { parseArgs } from "node:util"
import { Worker } from "node:worker_threads"
import * as Effect from "effect/Effect"
import { startUpstreams } from "../sandbox/SimulatedUpstreams.ts"
import { closedLoop, type Measured, type NextRequest, openLoop, placeholder, template } from "./Load.ts"
import { login, requestsOf } from "./Requests.ts"
import { buildPrograms, moveToLoadCore, startServer } from "./Servers.ts"

const { values } = parseArgs({
  options: { seconds: { type: "string", default: "10" }, factor: { type: "string", default: "2" } }
})
const seconds = Number(values.seconds)
const factor = Number(values.factor)

/** Milliseconds. */
const healthBound = 100
const deadline = 25_000
const recoveryBound = 5_000
/** Connections of the load; a request that finds none free waits, and its wait counts. */
const connections = 1_000

const print = (line: string) => process.stdout.write(`${line}\n`)

/** Runs in a thread of its own, so that the load does not delay it. Each probe has a new connection, as a load balancer's has. */
const probe = `
  const { parentPort, workerData } = require("node:worker_threads")
  const { get } = require("node:http")
  const times = []
  let failed = 0
  let open = 0
  let stopping = false
  const finish = () => {
    if (stopping && open === 0) parentPort.postMessage({ times, failed })
  }
  const timer = setInterval(() => {
    const began = performance.now()
    open += 1
    const end = (ok) => {
      open -= 1
      if (ok) times.push(performance.now() - began)
      else failed += 1
      finish()
    }
    get(workerData, { agent: false }, (response) => {
      response.resume()
      response.on("end", () => end(response.statusCode === 200))
    }).on("error", () => end(false))
  }, 250)
  parentPort.once("message", () => {
    stopping = true
    clearInterval(timer)
    finish()
  })`

interface Probed {
  readonly times: ReadonlyArray<number>
  readonly failed: number
}

/** Probes `healthz` every 250 ms while `work` runs. */
const probing = async (url: string, work: () => Promise<Measured>) => {
  const worker = new Worker(probe, { eval: true, workerData: `${url}/healthz` })
  await once(worker, "online")
  const result = await work()
  const answer = new Promise<Probed>((resolve) => worker.once("message", resolve))
  worker.postMessage("stop")
  const probed = await answer
  await worker.terminate()
  return { result, probed }
}

const at = (times: ReadonlyArray<number>, share: number): number =>
  [...times].sort((one, other) => one - other)[
    Math.min(times.length - 1, Math.floor(times.length * share))
  ] ?? 0

const failures: Array<string> = []
const demand = (holds: boolean, rule: string) => {
  if (!holds) failures.push(rule)
}

const show = (name: string, { probed, result }: Awaited<ReturnType<typeof probing>>) => {
  const { answered, failed, p50, p99, p999, refused } = result
  print(
    `${name}: ${answered} accepted (p50 ${p50.toFixed(0)}, p99 ${p99.toFixed(0)}, p99.9 ${p999.toFixed(0)} ms), ${refused} refused, ${failed - refused} others`
  )
  print(
    `  healthz: ${probed.times.length} answers (p50 ${at(probed.times, 0.5).toFixed(0)}, p99 ${at(probed.times, 0.99).toFixed(0)} ms), ${probed.failed} failed`
  )
  demand(at(probed.times, 0.99) <= healthBound, `${name}: healthz within ${healthBound} ms`)
  demand(probed.failed === 0, `${name}: healthz always answers`)
  demand(failed === refused, `${name}: only successes and 503`)
  demand(p999 <= deadline, `${name}: the deadline of what was accepted`)
}

/** Takes turns between several kinds of requests. */
const inTurn = (all: ReadonlyArray<NextRequest>): NextRequest => {
  let turn = 0
  return () => {
    turn += 1
    return all[turn % all.length]?.() ?? ""
  }
}

moveToLoadCore()
const programs = await buildPrograms(["now"])
await Effect.runPromise(
  Effect.scoped(
    Effect.flatMap(
      startUpstreams(() => Date.now()),
      (world) =>
        Effect.promise(async () => {
          const server = await startServer(programs, "now", world)
          const requests = requestsOf(world, () => placeholder)
          const telemetry = template(requests.telemetry())
          const work = inTurn([...Array<NextRequest>(7).fill(telemetry), template(requests.report())])
          try {
            await closedLoop(server.url, 64, { seconds: 3 }, () => work)
            const { perSecond } = await closedLoop(server.url, 64, { seconds: 5 }, () => work)
            print(`saturated: ${perSecond.toFixed(0)} requests a second`)
            const rate = { perSecond: perSecond * factor, seconds, connections }
            const pressed = await probing(server.url, () => openLoop(server.url, rate, work))
            show(`${factor} times as many`, pressed)
            print(`  goodput: ${(pressed.result.answered / seconds / perSecond).toFixed(2)} of saturation`)

            const ended = performance.now()
            for (let good = 0; good < 10; ) {
              const { answered, p50 } = await closedLoop(
                server.url,
                1,
                { seconds: 5, requests: 1 },
                () => telemetry
              )
              good = answered === 1 && p50 <= healthBound ? good + 1 : 0
              if (performance.now() - ended > 30_000) break
            }
            const recovered = performance.now() - ended
            print(`  recovered after ${recovered.toFixed(0)} ms`)
            demand(recovered <= recoveryBound, "recovery")

            const tokens = await login(server.url, world, 20)
            world.iam.fail({
              times: Number.POSITIVE_INFINITY,
              fault: { kind: "delay", milliseconds: 5_000 }
            })
            const looks = inTurn(tokens.map((token) => template(requests.me(token))))
            const slow = await probing(server.url, () =>
              openLoop(server.url, { perSecond: 200, seconds, connections }, inTurn([looks, telemetry]))
            )
            show("IAM takes 5 s, 100 me and 100 telemetry a second", slow)
          } finally {
            await server.stop()
          }
        })
    )
  )
)
programs.remove()
print("")
print(failures.length === 0 ? "Every rule holds." : `Broken: ${failures.join("; ")}.`)
process.exit(failures.length === 0 ? 0 : 1)
