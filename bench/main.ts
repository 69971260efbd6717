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
import { startUpstreams } from "../sandbox/SimulatedUpstreams.ts"
import { runClosedLoops, type Effort } from "./ClosedLoop.ts"
import { countedCalls, countOperations, operationTableFile } from "./Operations.ts"
import { runOpenLoops } from "./OpenLoop.ts"
import { withRecordedIam } from "./RecordedIam.ts"
import { buildPrograms, hasOwnCores, moveToLoadCore, serverNames } from "./Servers.ts"
import { openLoopTable, operationsTable, ratesTable } from "./Tables.ts"

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    operations: { type: "boolean", default: false },
    ratios: { type: "boolean", default: false },
    "open-loop": { type: "boolean", default: false }
  }
})

const chosen = (["operations", "ratios", "open-loop"] as const).filter((part) => options[part])
const runs = (part: (typeof chosen)[number]): boolean => chosen.length === 0 || chosen.includes(part)

const full: Effort = { rounds: 3, warmUp: { seconds: 1.5 }, measured: { seconds: 4 } }
const quick: Effort = { rounds: 1, warmUp: { seconds: 1 }, measured: { seconds: 2 } }

const progress = (text: string) => process.stderr.write(`${text}\n`)

const report = (text: string): void => void process.stdout.write(`\n${text}\n`)

const operations = async (): Promise<void> => {
  const counts = await countOperations()
  report(operationsTable(counts))
  if (options.quick) return
  const rows = Object.fromEntries(countedCalls.map((call) => [call, counts.get(call)]))
  writeFileSync(operationTableFile, `${JSON.stringify(rows, null, 2)}\n`)
}

const machine = (): string =>
  `${new Date().toISOString().slice(0, 10)}, Node ${process.versions.node}, ${cpus().length} cores (${cpus()[0]?.model ?? "unknown"}). ${
    hasOwnCores
      ? "Each server ran alone on one core, load and upstreams on the other."
      : "Servers, load and upstreams shared the cores: `taskset` is missing, and the figures say little."
  }`

/** Everything that runs servers as processes. */
const processes = Effect.gen(function* () {
  moveToLoadCore()
  const programs = yield* Effect.acquireRelease(
    Effect.promise(() => buildPrograms(serverNames)),
    ({ remove }) => Effect.sync(remove)
  )
  const world = yield* withRecordedIam(yield* startUpstreams(() => Date.now()))
  const effort = options.quick ? quick : full
  report(machine())
  if (runs("ratios"))
    report(ratesTable(yield* Effect.promise(() => runClosedLoops(programs, world, effort, progress))))
  const open = options.quick ? { rounds: 1, seconds: 4 } : { rounds: 3, seconds: 12 }
  if (runs("open-loop"))
    report(openLoopTable(yield* Effect.promise(() => runOpenLoops(programs, world, open, progress))))
}).pipe(Effect.scoped)

if (runs("operations")) await operations()
if (runs("ratios") || runs("open-loop")) await Effect.runPromise(processes)
process.exit(0)
