/**
 * `npm run proof -- fuzz --seed 1 --count 100000`: plays one suite of docs/proof.md, prints its figures and what broke, and exits with 0
 * when everything held, else with 1.
 */
import { existsSync } from "node:fs"
import { parseArgs } from "node:util"
import type { Play } from "./Suite.ts"

const suites = ["fuzz", "model", "matrix", "fairness", "attacks"]
const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: "string", default: "1" },
    count: { type: "string" },
    verbose: { type: "boolean", default: false }
  }
})
const print = (line: string) => process.stdout.write(`${line}\n`)
const [name = "", ...others] = positionals
if (!suites.includes(name) || others.length > 0) {
  print(`Usage: npm run proof -- <${suites.join("|")}> [--seed 1] [--count n] [--verbose]`)
  process.exit(64)
}

// A file system in memory, where there is one: no database outlives its machine here.
if (existsSync("/dev/shm")) process.env.TMPDIR ??= "/dev/shm"
const began = performance.now()
// Each folder has its suite in Play.ts.
const { play }: { readonly play: Play } = await import(`./${name}/Play.ts`)
const { broken, figures } = await play({
  seed: Number(values.seed),
  count: values.count === undefined ? undefined : Number(values.count),
  log: values.verbose ? print : () => undefined
})
for (const fault of broken) print(`BROKEN ${fault}`)
const minutes = ((performance.now() - began) / 60_000).toFixed(1)
for (const [what, value] of Object.entries({ seed: values.seed, ...figures, minutes }))
  print(`${what}: ${value}`)
print(broken.length === 0 ? "held" : "broken")
process.exit(broken.length === 0 ? 0 : 1)
