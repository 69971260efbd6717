/**
 * `npm run proof -- fuzz --seed 1 --count 100000`: plays one suite of docs/proof.md in full, prints its figures and what broke, and exits
 * with 0 when everything held, else with 1. `--record <file>` adds the row to a Markdown file, before `<!-- end of <suite> runs -->`.
 */
import { readFileSync, writeFileSync } from "node:fs"
import { cpus } from "node:os"
import { parseArgs } from "node:util"
import type { Outcome, Play } from "./Suite.ts"

const suites = ["fuzz", "model", "matrix", "fairness", "attacks"]

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: "string", default: "1" },
    count: { type: "string" },
    record: { type: "string" },
    verbose: { type: "boolean", default: false }
  }
})
const print = (line: string) => process.stdout.write(`${line}\n`)

const row = (cells: ReadonlyArray<string | number>): string => `| ${cells.join(" | ")} |`

const record = (file: string, suite: string, line: string): void => {
  const end = `<!-- end of ${suite} runs -->`
  const page = readFileSync(file, "utf8")
  if (!page.includes(end)) throw new Error(`${file} has no line ${end}`)
  writeFileSync(file, page.replace(end, `${line}\n${end}`))
}

const name = positionals[0] ?? ""
if (!suites.includes(name) || positionals.length > 1) {
  print(`Usage: npm run proof -- <${suites.join("|")}> [--seed 1] [--count n] [--record file] [--verbose]`)
  process.exit(64)
}

const began = performance.now()
// Each folder has its suite in Play.ts.
const { play }: { readonly play: Play } = await import(`./${name}/Play.ts`)
const { broken, figures }: Outcome = await play({
  seed: Number(values.seed),
  count: values.count === undefined ? undefined : Number(values.count),
  log: values.verbose ? print : () => undefined
})
const minutes = ((performance.now() - began) / 60_000).toFixed(1)
for (const fault of broken) print(`BROKEN ${fault}`)
const result = {
  seed: values.seed,
  ...figures,
  cores: cpus().length,
  minutes,
  result: broken.length === 0 ? "held" : "**broken**"
}
const line = row(Object.values(result))
print(row(Object.keys(result)))
print(row(Object.keys(result).map(() => "---")))
print(line)
if (values.record !== undefined) record(values.record, name, line)
process.exit(broken.length === 0 ? 0 : 1)
