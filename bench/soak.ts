/**
 * `npm run bench:soak -- --minutes 20`: the server under the calls of a day at half of what it can serve. Samples the heap after a
 * collection, descriptors, fibers, timers and listeners, fits a line over the second half, and says what grows.
 */
import { readdirSync, readFileSync } from "node:fs"
import { Agent } from "node:http"
import { setTimeout as pause } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { sqliteDatabase } from "../test/durability/Databases.ts"
import { bundle, environmentOf, freePort, startSimulators } from "../test/world/Fleet.ts"
import { startServer } from "./BundledServer.ts"
import { makeCalls, send, type Sent, throughput } from "./Calls.ts"
import { inspect, type ProcessState } from "./Inspector.ts"

const { values } = parseArgs({
  options: { minutes: { type: "string", default: "20" }, rate: { type: "string" } }
})
const minutes = Number(values.minutes)

const print = (line: string) => process.stdout.write(`${line}\n`)

/** Of 20 requests. `me` and tings are bounded by the calls that IAM allows. */
const mix = [
  ...Array.from({ length: 10 }, () => "telemetry" as const),
  ...Array.from({ length: 5 }, () => "me" as const),
  ...(["ting", "webhook", "report", "healthz", "metrics"] as const)
]
/** Requests a second at which the mix stays below 10,000 introspections a minute. */
const highestRate = 400

interface Sample extends ProcessState {
  readonly minute: number
  readonly descriptors: number
  readonly rss: number
}

const residentBytes = (pid: number): number =>
  Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) * 1_024

const measures = ["heap", "rss", "descriptors", "fibers", "timers", "resources", "listeners"] as const
type Measure = (typeof measures)[number]

/** A line through the samples by least squares: the slope a minute, and its standard error. */
const lineThrough = (samples: ReadonlyArray<Sample>, measure: Measure) => {
  const mean = (given: ReadonlyArray<number>) => given.reduce((sum, value) => sum + value, 0) / given.length
  const [x, y] = [samples.map(({ minute }) => minute), samples.map((sample) => sample[measure])]
  const [meanX, meanY] = [mean(x), mean(y)]
  const spread = x.reduce((sum, value) => sum + (value - meanX) ** 2, 0)
  const slope = x.reduce((sum, value, index) => sum + (value - meanX) * ((y[index] ?? 0) - meanY), 0) / spread
  const rest = y.reduce(
    (sum, value, index) => sum + (value - meanY - slope * ((x[index] ?? 0) - meanX)) ** 2,
    0
  )
  return { mean: meanY, slope, error: Math.sqrt(rest / Math.max(1, samples.length - 2) / spread) }
}

/** A growth counts when it is neither noise nor too small to matter: 1 % of the mean in the time that was measured. */
const isGrowing = ({ error, mean, slope }: ReturnType<typeof lineThrough>, span: number): boolean =>
  slope > 4 * error && slope * span > mean / 100

const file = await bundle(fileURLToPath(new URL("../src/main.ts", import.meta.url)))
const world = await startSimulators()
const database = await sqliteDatabase()
const inspectorPort = await freePort()
const server = await startServer(
  file,
  { ...environmentOf(world), ...database.environment, MUSIC_LOG_LEVEL: "none" },
  [`--inspect=127.0.0.1:${inspectorPort}`]
)
const samples: Array<Sample> = []
try {
  const calls = makeCalls(world, server)
  const nextSession = calls.next(await calls.sessions(20))
  let sent = 0
  const next = (): Sent => {
    sent += 1
    // Spreads each kind over the mix.
    switch (mix[(sent * 7) % mix.length]) {
      case "me":
        return calls.me(nextSession())
      case "ting":
        return calls.ting(nextSession())
      case "webhook":
        return calls.webhook()
      case "report":
        return calls.report()
      case "healthz":
        return calls.healthz()
      case "metrics":
        return calls.metrics()
      default:
        return calls.telemetry(3)
    }
  }
  const saturated = () => throughput(32, 5, () => calls.telemetry(3))
  const rate =
    values.rate === undefined
      ? Math.min(highestRate, Math.round((await saturated()) / 2))
      : Number(values.rate)
  print(`${rate} requests a second for ${minutes} minutes`)

  const agent = new Agent({ keepAlive: true, maxSockets: 64 })
  const statuses = new Map<string, number>()
  const count = (status: string) => statuses.set(status, (statuses.get(status) ?? 0) + 1)
  const began = performance.now()
  const end = began + minutes * 60_000
  let inFlight = 0
  const inspector = await inspect(inspectorPort)
  const every = Math.max(3_000, (minutes * 60_000) / 60)
  let sampleAt = began + every
  for (let index = 0; performance.now() < end; ) {
    if (performance.now() >= sampleAt) {
      // Without load, so that requests in flight do not count.
      while (inFlight > 0) await pause(5)
      await pause(300)
      samples.push({
        minute: (performance.now() - began) / 60_000,
        ...(await inspector.read()),
        descriptors: readdirSync(`/proc/${server.pid}/fd`).length,
        rss: residentBytes(server.pid)
      })
      // The simulators keep all that they received.
      for (const upstream of [world.iam, world.ting, world.tables, world.tracker]) upstream.seen.length = 0
      sampleAt += every
      continue
    }
    const due = began + (index * 1_000) / rate
    if (due > performance.now() || inFlight > 500) {
      await pause(1)
      continue
    }
    index += 1
    inFlight += 1
    void send(agent, next())
      .then(
        ({ status }) => count(String(status)),
        (error: unknown) => count(String(Reflect.get(Object(error), "code")))
      )
      .finally(() => {
        inFlight -= 1
      })
  }
  inspector.close()
  agent.destroy()
  print(`answers: ${[...statuses].map(([status, number]) => `${status}: ${number}`).join(", ")}`)
} finally {
  await server.stop()
  await world.close()
  await database.remove()
}

const half = samples.slice(Math.floor(samples.length / 2))
const span = (half.at(-1)?.minute ?? 0) - (half[0]?.minute ?? 0)
const shown = (measure: Measure, value: number): string =>
  measure === "heap" || measure === "rss" ? `${(value / 1_048_576).toFixed(2)} MiB` : value.toFixed(2)
print("")
print("| measure | first | mean of the second half | slope a minute | standard error | |")
print("|---|--:|--:|--:|--:|---|")
const growing = measures.filter((measure) => {
  const line = lineThrough(half, measure)
  // Pages that the allocator keeps are no leak: the heap shows one.
  const grows = measure !== "rss" && isGrowing(line, span)
  print(
    `| ${[measure, shown(measure, samples[0]?.[measure] ?? 0), shown(measure, line.mean), shown(measure, line.slope), shown(measure, line.error), grows ? "**growing**" : "flat"].join(" | ")} |`
  )
  return grows
})
print("")
print(growing.length === 0 ? "Nothing grows." : `Growing: ${growing.join(", ")}.`)
process.exit(growing.length === 0 ? 0 : 1)
