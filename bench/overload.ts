/**
 * `npm run bench:overload`: the server at twice the rate that it can serve, then with an identity service that takes 5 s. It should
 * refuse early with 503 `overloaded`, answer `healthz` within 100 ms, keep the deadline of what it accepted, and recover within
 * seconds. The server has one core, load and probe the other.
 */
import { once } from "node:events"
import { parseArgs } from "node:util"
import { Worker } from "node:worker_threads"
import { startSimulators } from "../test/world/Fleet.ts"
import { closedLoop, type Measured, median, openLoop, quantile } from "./Load.ts"
import { inTurn, login, mixOf, type Outgoing, requestsOf } from "./Requests.ts"
import { moveToLoadCore, prepare } from "./Servers.ts"

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
  const probes = []
  const timer = setInterval(() => {
    const began = performance.now()
    probes.push(new Promise((resolve) => {
      get(workerData, { agent: false }, (response) => {
        response.resume().on("end", () => resolve(response.statusCode === 200 ? performance.now() - began : null))
      }).on("error", () => resolve(null))
    }))
  }, 250)
  parentPort.once("message", async () => {
    clearInterval(timer)
    parentPort.postMessage(await Promise.all(probes))
  })`

/** Probes `healthz` every 250 ms while `work` runs. */
const probing = async (url: string, work: () => Promise<Measured>) => {
  const worker = new Worker(probe, { eval: true, workerData: `${url}/healthz` })
  await once(worker, "online")
  const result = await work()
  worker.postMessage("stop")
  // Milliseconds, or null of a probe that failed.
  const [probes]: ReadonlyArray<ReadonlyArray<number | null>> = await once(worker, "message")
  await worker.terminate()
  return { result, probes: probes ?? [] }
}

const failures: Array<string> = []
const demand = (holds: boolean, rule: string) => {
  if (!holds) failures.push(rule)
}

const show = (name: string, { probes, result }: Awaited<ReturnType<typeof probing>>) => {
  const { answered, failed, p50, p99, p999, statuses } = result
  const refused = statuses.get(503) ?? 0
  const times = probes.flatMap((time) => time ?? [])
  print(
    `${name}: ${answered} accepted (p50 ${p50.toFixed(0)}, p99 ${p99.toFixed(0)}, p99.9 ${p999.toFixed(0)} ms), ${refused} refused, ${failed - refused} others`
  )
  print(
    `  healthz: ${times.length} answers (p50 ${median(times).toFixed(0)}, p99 ${quantile(times, 0.99).toFixed(0)} ms), ${probes.length - times.length} failed`
  )
  demand(quantile(times, 0.99) <= healthBound, `${name}: healthz within ${healthBound} ms`)
  demand(probes.length === times.length, `${name}: healthz always answers`)
  demand(failed === refused, `${name}: only successes and 503`)
  demand(p999 <= deadline, `${name}: the deadline of what was accepted`)
}

/** Milliseconds from now until ten requests in a row are fast; gives up after 30 s. */
const recovery = async (url: string, request: () => Outgoing): Promise<number> => {
  const ended = performance.now()
  for (let good = 0; good < 10 && performance.now() - ended < 30_000; ) {
    const { answered, p50 } = await closedLoop(url, 1, { seconds: 5, requests: 1 }, request)
    good = answered === 1 && p50 <= healthBound ? good + 1 : 0
  }
  return performance.now() - ended
}

moveToLoadCore()
const start = await prepare("now")
const world = await startSimulators()
const { stop, url } = await start(world)
const requests = requestsOf(world)
const telemetry = () => requests.telemetry()
const work = mixOf(
  [
    [7, telemetry],
    [1, () => requests.report()]
  ],
  1
)
try {
  await closedLoop(url, 64, { seconds: 3 }, work)
  const { perSecond } = await closedLoop(url, 64, { seconds: 5 }, work)
  print(`saturated: ${perSecond.toFixed(0)} requests a second`)
  const rate = { perSecond: perSecond * factor, seconds, connections }
  const pressed = await probing(url, () => openLoop(url, rate, work))
  show(`${factor} times as many`, pressed)
  print(`  goodput: ${(pressed.result.answered / seconds / perSecond).toFixed(2)} of saturation`)
  const recovered = await recovery(url, telemetry)
  print(`  recovered after ${recovered.toFixed(0)} ms`)
  demand(recovered <= recoveryBound, "recovery")

  const caller = inTurn(await login(url, world, 20))
  world.iam.fail({ times: Number.POSITIVE_INFINITY, fault: { kind: "delay", milliseconds: 5_000 } })
  const both = inTurn([() => requests.me(caller().token), telemetry])
  const slow = await probing(url, () =>
    openLoop(url, { perSecond: 200, seconds, connections }, () => both()())
  )
  show("IAM takes 5 s, 100 me and 100 telemetry a second", slow)
} finally {
  await stop()
  await world.close()
}
print("")
print(failures.length === 0 ? "Every rule holds." : `Broken: ${failures.join("; ")}.`)
process.exit(failures.length === 0 ? 0 : 1)
