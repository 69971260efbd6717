/**
 * `npm run bench`: operations, throughput, an open loop, start and memory, beside the commit before and a bare server. Prints tables and
 * writes them into docs/performance.md.
 *
 *     npm run bench                             every part
 *     npm run bench -- --operations --ratios    only these parts (also --open-loop, --start)
 *     npm run bench -- --quick                  short runs, for development; writes nothing
 */
import { writeFileSync } from "node:fs"
import { cpus } from "node:os"
import { parseArgs } from "node:util"
import * as Effect from "effect/Effect"
import { startUpstreams } from "../sandbox/SimulatedUpstreams.ts"
import { runClosedLoops, type Effort } from "./ClosedLoop.ts"
import { type Section, writeSection } from "./Document.ts"
import { runOpenLoops } from "./OpenLoop.ts"
import { countedCalls, countOperations, operationTableFile } from "./Operations.ts"
import { withRecordedIam } from "./RecordedIam.ts"
import { buildPrograms, hasOwnCores, moveToLoadCore, serverNames } from "./Servers.ts"
import { measureStart } from "./Start.ts"
import { openLoopTable, operationsTable, ratesTable, startTable } from "./Tables.ts"

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    operations: { type: "boolean", default: false },
    ratios: { type: "boolean", default: false },
    "open-loop": { type: "boolean", default: false },
    start: { type: "boolean", default: false }
  }
})
const chosen = (["operations", "ratios", "open-loop", "start"] as const).filter((part) => options[part])
const runs = (part: (typeof chosen)[number]): boolean => chosen.length === 0 || chosen.includes(part)

const full: Effort = { rounds: 3, warmUp: { seconds: 1.5 }, measured: { seconds: 4 } }
const quick: Effort = { rounds: 1, warmUp: { seconds: 1 }, measured: { seconds: 2 } }
const efforts = options.quick
  ? { ratios: quick, openLoop: { rounds: 1, seconds: 4 }, starts: 1 }
  : { ratios: full, openLoop: { rounds: 3, seconds: 12 }, starts: 5 }

const progress = (text: string) => process.stderr.write(`${text}\n`)

const report = (section: Section, text: string): void => {
  process.stdout.write(`\n${section}\n\n${text}\n`)
  if (!options.quick) writeSection(section, text)
}

const operations = async (): Promise<void> => {
  const counts = await countOperations()
  report("operations", operationsTable(counts))
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
  yield* Effect.promise(async () => {
    report("machine", machine())
    if (runs("start")) {
      const now = await measureStart(programs, "now", world, efforts.starts)
      report("start", startTable(now, await measureStart(programs, "before", world, efforts.starts)))
    }
    if (runs("ratios"))
      report("ratios", ratesTable(await runClosedLoops(programs, world, efforts.ratios, progress)))
    if (runs("open-loop"))
      report("open-loop", openLoopTable(await runOpenLoops(programs, world, efforts.openLoop, progress)))
  })
}).pipe(Effect.scoped)

if (runs("operations")) await operations()
if (chosen.length !== 1 || !chosen.includes("operations")) await Effect.runPromise(processes)
process.exit(0)
