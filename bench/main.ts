/**
 * `npm run bench`: operations, ratios to a peer, an open loop, start and memory. Prints tables and writes them into docs/performance.md.
 *
 *     npm run bench                             every part
 *     npm run bench -- --operations --ratios    only these parts
 *     npm run bench -- --quick                  short runs, for development; writes nothing
 *     npm run bench -- --histogram me           where the operations of one call are
 */
import { writeFileSync } from "node:fs"
import { parseArgs } from "node:util"
import * as Effect from "effect/Effect"
import { startUpstreams } from "../sandbox/SimulatedUpstreams.ts"
import { countedCalls, countOperations, operationTableFile, readOperationTable } from "./Operations.ts"
import { makeHistogram } from "./Histogram.ts"
import { compareWithPeer, type Effort } from "./Ratios.ts"
import { withRecordedIam } from "./RecordedIam.ts"
import { buildPrograms, moveToLoadCore } from "./Servers.ts"
import { latencyTable, operationsTable, ratesTable } from "./Tables.ts"

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    histogram: { type: "string" },
    operations: { type: "boolean", default: false },
    ratios: { type: "boolean", default: false }
  }
})

const all = !options.operations && !options.ratios

const efforts: Readonly<Record<"full" | "quick", Effort>> = {
  full: { rounds: 3, warmUp: { seconds: 1.5 }, many: { seconds: 4 }, one: { seconds: 2 } },
  quick: { rounds: 1, warmUp: { seconds: 1 }, many: { seconds: 2 }, one: { seconds: 1 } }
}
const effort = efforts[options.quick ? "quick" : "full"]

const print = (text: string) => process.stdout.write(`${text}\n`)
const progress = (text: string) => process.stderr.write(`${text}\n`)

if (options.histogram !== undefined) {
  const call = countedCalls.find((name) => name === options.histogram)
  if (call === undefined) throw new Error(`--histogram takes one of ${countedCalls.join(", ")}`)
  const histogram = makeHistogram()
  await countOperations({ calls: [call], repetitions: 1, histogram })
  print(histogram.render(60))
  process.exit(0)
}

if (all || options.operations) {
  const counts = await countOperations()
  print(`\nOperations a request\n\n${operationsTable(counts, readOperationTable())}`)
  if (!options.quick) {
    const rows = Object.fromEntries(countedCalls.map((call) => [call, counts.get(call)]))
    writeFileSync(operationTableFile, `${JSON.stringify(rows, null, 2)}\n`)
  }
}

if (all || options.ratios) {
  moveToLoadCore()
  const programs = await buildPrograms()
  await Effect.runPromise(
    Effect.scoped(
      Effect.gen(function* () {
        const world = yield* withRecordedIam(yield* startUpstreams(() => Date.now()))
        const ratios = yield* Effect.promise(() => compareWithPeer(programs, world, effort, progress))
        print(`\nRequests a second\n\n${ratesTable(ratios)}`)
        print(`\nLatency\n\n${latencyTable(ratios)}`)
      })
    )
  )
  programs.remove()
}
process.exit(0)
