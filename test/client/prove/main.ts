/** `npm run prove:client -- --seed 1 --count 600`: plays failures through the built package of the client, and exits with 1 when one costs a session. */
import { parseArgs } from "node:util"
import { prove } from "./Prove.ts"

const { values } = parseArgs({
  options: { seed: { type: "string", default: "1" }, count: { type: "string", default: "600" } }
})
const lost = await prove(Number(values.count), Number(values.seed))
for (const one of lost) process.stdout.write(`LOST ${one}\n`)
process.stdout.write(`${values.count} failures, ${lost.length} sessions lost\n`)
process.exit(lost.length === 0 ? 0 : 1)
