/**
 * `npm run bench:soak -- --minutes 20`: the server under the calls of a day at half of what it can serve. Samples the heap after a
 * collection, descriptors, fibers, timers and listeners, and says what grows.
 */
import { setTimeout as pause } from "node:timers/promises"
import { parseArgs } from "node:util"
import { startSimulators } from "../test/world/Fleet.ts"
import { closedLoop, openLoop } from "./Load.ts"
import { inTurn, login, mixOf, requestsOf } from "./Requests.ts"
import { prepare } from "./Servers.ts"

const { values } = parseArgs({
  options: { minutes: { type: "string", default: "20" }, rate: { type: "string" } }
})
const minutes = Number(values.minutes)
const sampleCount = Math.max(8, Math.min(60, Math.floor(minutes * 20)))

/** Requests a second at which the mix stays below 10,000 introspections a minute. */
const highestRate = 400

const print = (line: string) => process.stdout.write(`${line}\n`)

const start = await prepare("now")
const world = await startSimulators()
const server = await start(world, { MUSIC_LOG_LEVEL: "none" }, ["--expose-gc"])
const samples: Array<Readonly<Record<string, number>>> = []
const statuses = new Map<number, number>()
try {
  const requests = requestsOf(world)
  const caller = inTurn(await login(server.url, world, 20))
  const telemetry = () => requests.telemetry(3)
  // Of 20 requests; `me` and tings are bounded by the calls that IAM allows.
  const next = mixOf(
    [
      [10, telemetry],
      [5, () => requests.me(caller().token)],
      [1, () => requests.ting(caller())],
      [1, () => requests.webhook()],
      [1, () => requests.report()],
      [2, requests.healthz]
    ],
    7
  )
  const saturated = async () => (await closedLoop(server.url, 32, { seconds: 5 }, telemetry)).perSecond
  const perSecond = Number(values.rate ?? Math.min(highestRate, Math.round((await saturated()) / 2)))
  print(`${perSecond} requests a second for ${minutes} minutes`)
  while (samples.length < sampleCount) {
    const measured = await openLoop(server.url, { perSecond, seconds: (minutes * 60) / sampleCount }, next)
    for (const [status, count] of measured.statuses) statuses.set(status, (statuses.get(status) ?? 0) + count)
    // Prometheus asks as rarely.
    await fetch(`${server.adminUrl}/metrics`).then((response) => response.text())
    // Without load, so that requests in flight do not count.
    await pause(300)
    samples.push(await server.holdings())
    // The simulators keep all that they received.
    for (const upstream of [world.iam, world.ting, world.tables, world.tracker]) upstream.seen.length = 0
  }
} finally {
  await server.stop()
  await world.close()
}
print(`answers: ${[...statuses].map((entry) => entry.join(": ")).join(", ")}`)

/** Of the second and of the last quarter of the run. */
const quarter = Math.floor(sampleCount / 4)
const parts = [samples.slice(quarter, 2 * quarter), samples.slice(-quarter)]
const shown = (measure: string, value: number): string =>
  measure === "heap" || measure === "rss" ? `${(value / 1_048_576).toFixed(2)} MiB` : String(value)
print("\n| measure | first | second quarter | last quarter | |\n|---|--:|--:|--:|---|")
const growing = Object.keys(samples[0] ?? {}).filter((measure) => {
  const [early = [], late = []] = parts.map((part) => part.map((sample) => sample[measure] ?? 0))
  // Noise overlaps. Pages that the allocator keeps are no leak: the heap shows one.
  const grows = measure !== "rss" && Math.min(...late) > 1.01 * Math.max(...early)
  const spans = [early, late].map(
    (part) => `${shown(measure, Math.min(...part))} to ${shown(measure, Math.max(...part))}`
  )
  print(
    `| ${[measure, shown(measure, samples[0]?.[measure] ?? 0), ...spans, grows ? "**growing**" : "flat"].join(" | ")} |`
  )
  return grows
})
print(growing.length === 0 ? "\nNothing grows." : `\nGrowing: ${growing.join(", ")}.`)
process.exit(growing.length === 0 ? 0 : 1)
