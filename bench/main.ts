/**
 * `npm run bench`: operations, throughput and an open loop, beside the commit before and a bare server. Prints the tables of docs/performance.md.
 *
 *     npm run bench                             every part
 *     npm run bench -- --operations             only this part (also --ratios, --open-loop)
 *     npm run bench -- --quick                  short runs, for development; writes nothing
 */
import { writeFileSync } from "node:fs"
import { cpus } from "node:os"
import { parseArgs } from "node:util"
import * as Effect from "effect/Effect"
import { type SimulatedUpstreams, startUpstreams } from "../sandbox/SimulatedUpstreams.ts"
import { closedLoop, type Length, type Measured, median, openLoop } from "./Load.ts"
import {
  countedCalls,
  countOperations,
  operationBounds,
  operationsBefore,
  operationTableFile
} from "./Operations.ts"
import { withRecordedIam } from "./RecordedIam.ts"
import { inTurn, login, mixOf, type Outgoing, requestsOf } from "./Requests.ts"
import { hasOwnCores, moveToLoadCore, prepare, type Server, type ServerName } from "./Servers.ts"

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    operations: { type: "boolean", default: false },
    ratios: { type: "boolean", default: false },
    "open-loop": { type: "boolean", default: false }
  }
})
const isChosen = options.operations || options.ratios || options["open-loop"]
const runs = (part: "operations" | "ratios" | "open-loop"): boolean => !isChosen || options[part]
const rounds = options.quick ? 1 : 3

/** The least part of the throughput before, and of the bare server's at probes. */
const leastOfBefore = 0.4
const leastOfBare = 0.5
/** The most times the p99 before, in the open loop. */
const mostOfP99 = 2

const progress = (text: string) => process.stderr.write(`${text}\n`)
const print = (text: string): void => void process.stdout.write(`\n${text}\n`)
/** The columns are written with a bar between two of them. */
const printTable = (columns: string, rows: ReadonlyArray<ReadonlyArray<string>>): void => {
  const head = [`| ${columns} |`, `|${columns.replaceAll(/[^|]+/g, "---")}|`]
  print([...head, ...rows.map((cells) => `| ${cells.join(" | ")} |`)].join("\n"))
}

const count = (value: number): string => (Number.isNaN(value) ? "" : Math.round(value).toLocaleString("en"))
const millis = (value: number): string => value.toFixed(value < 10 ? 1 : 0)
const judge = (isMet: boolean): string => (isMet ? "met" : "**missed**")
const judgeLeast = (value: number, bound: number): string =>
  Number.isNaN(value) ? "" : `${value.toFixed(2)} (≥ ${bound}: ${judge(value >= bound)})`

const runOperations = async (): Promise<void> => {
  const counts = await countOperations()
  printTable(
    "call | operations | before | bound | ",
    countedCalls.map((call) => {
      const [operations, bound] = [counts.get(call) ?? Number.NaN, operationBounds[call]]
      const judged = bound === undefined ? ["", ""] : [count(bound), judge(operations <= bound)]
      return [call, count(operations), count(operationsBefore[call]), ...judged]
    })
  )
  if (!options.quick)
    writeFileSync(operationTableFile, `${JSON.stringify(Object.fromEntries(counts), null, 2)}\n`)
}

const connections = 16
const comparedCalls = ["healthz", "me", "report", "telemetry"] as const

/** With a budget of 10,000 calls to IAM a minute, the requests of `me` to one process stay below. */
const mostRequests = { me: { warmUp: 1_000, measured: 1_500 } } as const
const lengthOf = (call: (typeof comparedCalls)[number], part: "warmUp" | "measured"): Length =>
  call === "me"
    ? { seconds: 10, requests: mostRequests.me[part] }
    : { seconds: { warmUp: 1.5, measured: options.quick ? 2 : 4 }[part] }

type Sample = Pick<Measured, "failed" | "p50" | "p99" | "perSecond"> & { readonly cpuMicros: number }

/** Runs `work` on a new server of each program in turn, for some rounds. The result gives medians of the samples that it took. */
const inRounds = async (
  names: ReadonlyArray<ServerName>,
  world: SimulatedUpstreams,
  work: (server: Server, name: ServerName, take: (call: string, sample: Sample) => void) => Promise<void>
) => {
  const samples: Array<Sample & { readonly key: string }> = []
  const starts = new Map<ServerName, Awaited<ReturnType<typeof prepare>>>()
  for (const name of names) starts.set(name, await prepare(name))
  for (let round = 0; round < rounds; round += 1)
    for (const [name, start] of starts) {
      const server = await start(world)
      try {
        await work(server, name, (call, sample) => {
          samples.push({ ...sample, key: `${name} ${call}` })
          progress(`${name} ${call}: ${Math.round(sample.perSecond)}/s, p99 ${sample.p99.toFixed(1)} ms`)
        })
      } finally {
        await server.stop()
      }
    }
  /** `NaN` where nothing was measured. */
  return (name: ServerName, call: string, quantity: keyof Sample): number =>
    median(samples.filter(({ key }) => key === `${name} ${call}`).map((sample) => sample[quantity]))
}

/** A closed loop of the same requests to each server. */
const runRatios = async (world: SimulatedUpstreams): Promise<void> => {
  const requests = requestsOf(world)
  const names = ["now", "before", "bare"] as const
  const medianOf = await inRounds(names, world, async (server, name, take) => {
    const callers = name === "bare" ? [] : await login(server.url, world, connections)
    const next: Record<(typeof comparedCalls)[number], (connection: number) => Outgoing> = {
      healthz: requests.healthz,
      me: (connection) => requests.me(callers[connection]?.token ?? ""),
      report: () => requests.report(),
      telemetry: () => requests.telemetry()
    }
    for (const call of name === "bare" ? (["healthz"] as const) : comparedCalls) {
      await closedLoop(server.url, connections, lengthOf(call, "warmUp"), next[call])
      const cpu = server.cpuMillis()
      const measured = await closedLoop(server.url, connections, lengthOf(call, "measured"), next[call])
      take(call, { ...measured, cpuMicros: ((server.cpuMillis() - cpu) * 1_000) / measured.answered })
    }
  })
  printTable(
    "call | requests/s | before | ratio | bare | ratio | CPU µs | before | p99 ms | before | failed",
    comparedCalls.map((call) => {
      const [now = 0, before = 0, bare = 0] = names.map((name) => medianOf(name, call, "perSecond"))
      const both = (quantity: keyof Sample) =>
        (["now", "before"] as const).map((name) => medianOf(name, call, quantity))
      return [
        ...[call, count(now), count(before), judgeLeast(now / before, leastOfBefore)],
        ...[count(bare), judgeLeast(now / bare, leastOfBare)],
        ...[...both("cpuMicros"), ...both("p99")].map(millis),
        count(both("failed").reduce((sum, value) => sum + value, 0))
      ]
    })
  )
}

/** Requests a second of the open loop. */
const openRate = 100

/** An open loop with the mix of a day. */
const runOpenLoop = async (world: SimulatedUpstreams): Promise<void> => {
  const requests = requestsOf(world)
  const medianOf = await inRounds(["now", "before"], world, async (server, _, take) => {
    const caller = inTurn(await login(server.url, world, 64))
    const next = mixOf(
      [
        [55, () => requests.telemetry()],
        [35, () => requests.me(caller().token)],
        [4, () => requests.ting(caller())],
        [3, () => requests.webhook()],
        [3, () => requests.report()]
      ],
      37
    )
    await openLoop(server.url, { perSecond: 2 * openRate, seconds: 3 }, next)
    const seconds = options.quick ? 4 : 12
    const measured = await openLoop(server.url, { perSecond: openRate, seconds }, next)
    take("open loop", { ...measured, cpuMicros: Number.NaN })
  })
  const [p50 = 0, p50Before = 0, p99 = 0, p99Before = 0] = (["p50", "p99"] as const).flatMap((quantity) =>
    (["now", "before"] as const).map((name) => medianOf(name, "open loop", quantity))
  )
  const failed = medianOf("now", "open loop", "failed") + medianOf("before", "open loop", "failed")
  const ratio = p99 / p99Before
  printTable("requests/s | p50 ms | before | p99 ms | before | ratio | failed", [
    [
      ...[String(openRate), ...[p50, p50Before, p99, p99Before].map(millis)],
      ...[`${ratio.toFixed(2)} (≤ ${mostOfP99}: ${judge(ratio <= mostOfP99)})`, String(failed)]
    ]
  ])
}

/** Everything that runs servers as processes. */
const processes = Effect.gen(function* () {
  moveToLoadCore()
  const world = yield* withRecordedIam(yield* startUpstreams(() => Date.now()))
  print(
    `${new Date().toISOString().slice(0, 10)}, Node ${process.versions.node}, ${cpus().length} cores (${cpus()[0]?.model ?? "unknown"}). ${
      hasOwnCores
        ? "Each server ran alone on one core, load and upstreams on the other."
        : "Servers, load and upstreams shared the cores: `taskset` is missing, and the figures say little."
    }`
  )
  if (runs("ratios")) yield* Effect.promise(() => runRatios(world))
  if (runs("open-loop")) yield* Effect.promise(() => runOpenLoop(world))
}).pipe(Effect.scoped)

if (runs("operations")) await runOperations()
if (runs("ratios") || runs("open-loop")) await Effect.runPromise(processes)
process.exit(0)
