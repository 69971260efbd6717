/**
 * `npm run bench:overload`: the server at twice the rate that it can serve, then with an identity service that takes 5 s. It should
 * refuse early with 503 `overloaded` and `Retry-After`, answer `healthz` within 100 ms, keep the deadline of what it accepted,
 * and recover within seconds.
 */
import { once } from "node:events"
import { Agent } from "node:http"
import { setTimeout as pause } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { Worker } from "node:worker_threads"
import { sqliteDatabase } from "../test/durability/Databases.ts"
import { bundle } from "../test/durability/Fleet.ts"
import { environmentOf, startSimulators } from "../test/durability/Simulators.ts"
import { startServer } from "./BundledServer.ts"
import { makeCalls, send, type Sent, throughput } from "./Calls.ts"

const { values } = parseArgs({
  options: { seconds: { type: "string", default: "10" }, factor: { type: "string", default: "2" } }
})
const seconds = Number(values.seconds)
const factor = Number(values.factor)

/** Milliseconds. */
const healthBound = 100
const deadline = 25_000
const recoveryBound = 5_000
/** Connections that are open at once; more requests wait for one, and their wait counts. */
const mostConnections = 2_000

const print = (line: string) => process.stdout.write(`${line}\n`)

interface Answers {
  readonly accepted: Array<number>
  readonly refused: Array<number>
  withoutRetryAfter: number
  /** Other statuses and broken connections, with their number. */
  readonly others: Map<string, number>
}

const at = (times: ReadonlyArray<number>, share: number): number =>
  [...times].sort((one, other) => one - other)[
    Math.min(times.length - 1, Math.floor(times.length * share))
  ] ?? 0

const startAnswers = (): Answers => ({ accepted: [], refused: [], withoutRetryAfter: 0, others: new Map() })

const record = async (answers: Answers, agent: Agent, request: Sent, due: number): Promise<void> => {
  const other = (name: string) => answers.others.set(name, (answers.others.get(name) ?? 0) + 1)
  try {
    const { body, headers, status } = await send(agent, request)
    const took = performance.now() - due
    if (status >= 200 && status < 300) answers.accepted.push(took)
    else if (status === 503 && body.includes('"overloaded"')) {
      answers.refused.push(took)
      if (headers["retry-after"] === undefined) answers.withoutRetryAfter += 1
    } else other(String(status))
  } catch (error) {
    other(String(Reflect.get(Object(error), "code")))
  }
}

/** Sends at a fixed rate for some seconds, and waits for all answers. Times count from when a request was due. */
const openLoop = async (perSecond: number, duration: number, next: () => Sent): Promise<Answers> => {
  const agent = new Agent({ keepAlive: true, maxSockets: mostConnections })
  const answers = startAnswers()
  const running: Array<Promise<void>> = []
  const began = performance.now()
  for (let index = 0; index < perSecond * duration; ) {
    const due = began + (index * 1_000) / perSecond
    if (due > performance.now()) {
      await pause(1)
      continue
    }
    index += 1
    running.push(record(answers, agent, next(), due))
  }
  await Promise.all(running)
  agent.destroy()
  return answers
}

/** Runs in a thread of its own, so that the load does not delay it. Each probe has a new connection, as a load balancer's has. */
const probe = `
  const { parentPort, workerData } = require("node:worker_threads")
  const { get } = require("node:http")
  const times = []
  const failed = []
  let open = 0
  let stopping = false
  const finish = () => {
    if (stopping && open === 0) parentPort.postMessage({ times, failed })
  }
  const timer = setInterval(() => {
    const began = performance.now()
    open += 1
    const end = (problem) => {
      open -= 1
      if (problem === undefined) times.push(performance.now() - began)
      else failed.push(problem)
      finish()
    }
    get(workerData, { agent: false }, (response) => {
      response.resume()
      response.on("end", () => end(response.statusCode === 200 ? undefined : String(response.statusCode)))
    }).on("error", ({ code }) => end(code))
  }, 50)
  parentPort.once("message", () => {
    stopping = true
    clearInterval(timer)
    finish()
  })`

interface Probed {
  readonly times: ReadonlyArray<number>
  readonly failed: ReadonlyArray<string>
}

/** Probes `healthz` every 50 ms while `work` runs. */
const probing = async <A>(url: string, work: () => Promise<A>) => {
  const worker = new Worker(probe, { eval: true, workerData: url })
  await once(worker, "online")
  const result = await work()
  const answer = new Promise<Probed>((resolve) => worker.once("message", resolve))
  worker.postMessage("stop")
  const probed = await answer
  await worker.terminate()
  return { result, probed }
}

const showProbed = ({ failed, times }: Probed) =>
  print(
    `  healthz: ${times.length} answers (p50 ${at(times, 0.5).toFixed(0)} ms, p99 ${at(times, 0.99).toFixed(0)} ms), failed ${failed.length}`
  )

const show = (name: string, { accepted, others, refused, withoutRetryAfter }: Answers) => {
  const times = (given: ReadonlyArray<number>) =>
    `${given.length} (p50 ${at(given, 0.5).toFixed(0)} ms, p99 ${at(given, 0.99).toFixed(0)} ms)`
  print(
    `${name}: accepted ${times(accepted)}, refused ${times(refused)}, without Retry-After ${withoutRetryAfter}, others ${JSON.stringify([...others])}`
  )
}

const failures: Array<string> = []
const demand = (holds: boolean, rule: string) => {
  if (!holds) failures.push(rule)
}

const { file, remove } = await bundle(fileURLToPath(new URL("../src/main.ts", import.meta.url)))
const world = await startSimulators()
const database = await sqliteDatabase()
const server = await startServer(file, {
  ...environmentOf(world),
  ...database.environment,
  MUSIC_LOG_LEVEL: "none"
})
try {
  const calls = makeCalls(world, server)
  const sessions = await calls.sessions(20)
  const nextSession = calls.next(sessions)
  // Bound by the server's own work.
  let sent = 0
  const work = () => {
    sent += 1
    return sent % 8 === 0 ? calls.report() : calls.telemetry(10)
  }
  await throughput(64, 3, work)
  const perSecond = await throughput(64, 5, work)
  print(`saturated: ${perSecond.toFixed(0)} requests a second`)

  const pressed = await probing(calls.healthz().url, () =>
    openLoop(Math.round(perSecond * factor), seconds, work)
  )
  show(`${factor} times as many`, pressed.result)
  showProbed(pressed.probed)
  demand(at(pressed.probed.times, 0.99) <= healthBound, "healthz p99")
  demand(pressed.probed.failed.length === 0, "healthz always answers")
  demand(pressed.result.withoutRetryAfter === 0, "Retry-After")
  demand(pressed.result.others.size === 0, "only successes and 503 overloaded")
  demand(at(pressed.result.accepted, 1) <= deadline, "the deadline of what was accepted")
  print(`  goodput: ${(pressed.result.accepted.length / seconds / perSecond).toFixed(2)} of saturation`)

  const ended = performance.now()
  for (let good = 0; good < 10; ) {
    const one = startAnswers()
    await record(one, calls.agent, calls.telemetry(10), performance.now())
    good = one.accepted.length === 1 && (one.accepted[0] ?? 0) <= healthBound ? good + 1 : 0
    if (performance.now() - ended > 30_000) break
    await pause(20)
  }
  const recovered = performance.now() - ended
  print(`  recovered after ${recovered.toFixed(0)} ms`)
  demand(recovered <= recoveryBound, "recovery")

  world.iam.fail({ times: Number.POSITIVE_INFINITY, fault: { kind: "delay", milliseconds: 5_000 } })
  let turn = 0
  const slow = await probing(calls.healthz().url, () =>
    openLoop(200, seconds, () => {
      turn += 1
      return turn % 2 === 0 ? calls.me(nextSession()) : calls.telemetry(10)
    })
  )
  show("IAM takes 5 s, 100 me and 100 telemetry a second", slow.result)
  showProbed(slow.probed)
  demand(at(slow.probed.times, 0.99) <= healthBound, "healthz p99 with a slow IAM")
  demand(at(slow.result.accepted, 1) <= deadline, "the deadline with a slow IAM")
} finally {
  await server.stop()
  await world.close()
  await database.remove()
  remove()
}
print("")
print(failures.length === 0 ? "Every rule holds." : `Broken: ${failures.join("; ")}.`)
process.exit(failures.length === 0 ? 0 : 1)
