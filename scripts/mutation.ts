/**
 * `npm run mutation -- src/services [--count 2000] [--seed 1] [--out file.json]`: breaks one expression of a folder at a time, where
 * the result still compiles, and runs the tests that reach it. Prints the mutants that no test saw, and the score. The same seed and
 * source have the same sample, and a smaller count is the beginning of a larger one, so two sets of tests can be compared.
 */
import { spawnSync } from "node:child_process"
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { type Mutant, type Place, placeOf, sampleOf, withMutant } from "./mutation/Sample.ts"
import { root, scratchCopy } from "./Scratch.ts"

/** Folders and files of tests that a mutant of a folder is shown to. */
const testsOf: Readonly<Record<string, ReadonlyArray<string>>> = {
  "src/services": ["test/services", "test/http", "test/layers/store", "test/layers/settings", "test/cli"],
  "src/http": ["test/http", "test/observability"],
  "src/layers/iam": ["test/layers/iam", "test/services", "test/http"],
  "src/layers/delivery": ["test/layers/delivery", "test/services"],
  "src/layers/store": [
    "test/layers/store",
    "test/cli",
    "test/faults/OneServer.test.ts",
    "test/faults/Start.test.ts"
  ],
  "src/layers/diagnostics": ["test/cli"],
  "src/layers/observability": ["test/observability", "test/layers/observability"],
  "src/layers/settings": ["test/layers/settings", "test/cli"],
  "src/layers/process": ["test/layers/process"],
  "src/layers/tables": ["test/layers/tables"],
  "src/layers/ting": ["test/layers/ting", "test/services"],
  "src/layers/tracker": ["test/layers/tracker"],
  "src/layers/upstream": ["test/layers/upstream", "test/layers/iam", "test/http"],
  "src/cli": ["test/cli"]
}

/** What Stryker reports of a mutant; lines and columns count from 1. */
interface Reported {
  readonly mutatorName: string
  readonly replacement?: string
  readonly location: { readonly start: Place; readonly end: Place }
  readonly status: string
  readonly statusReason?: string
  readonly static?: boolean
}
type Report = Readonly<Record<"files", Record<string, { readonly mutants: ReadonlyArray<Reported> }>>>

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    count: { type: "string", default: "2000" },
    seed: { type: "string", default: "1" },
    out: { type: "string" }
  }
})
const print = (line: string) => process.stdout.write(`${line}\n`)

const folder = (positionals[0] ?? "").replace(/\/$/, "")
const tests = testsOf[folder]
if (tests === undefined || positionals.length > 1) {
  print(`Usage: npm run mutation -- <folder> [--count 2000] [--seed 1] [--out file.json]; a folder is one of`)
  for (const name of Object.keys(testsOf)) print(`  ${name}`)
  process.exit(64)
}

const began = performance.now()
const sample = await sampleOf(root, folder, values.seed, Number(values.count))

const settings = {
  // Only the sample is compiled in: the switches of thousands of mutants would slow every loop.
  mutate: sample.map(
    ({ end, file, start }) => `${file}:${start.line + 1}:${start.column}-${end.line + 1}:${end.column}`
  ),
  plugins: [
    "@stryker-mutator/vitest-runner",
    "@stryker-mutator/typescript-checker",
    "./scripts/mutation/Checker.mjs"
  ],
  testRunner: "vitest",
  vitest: { configFile: "scripts/mutation/vitest.config.ts" },
  // A mutant that does not compile never lands.
  checkers: ["sample", "typescript"],
  tsconfigFile: "scripts/mutation/tsconfig.json",
  coverageAnalysis: "perTest",
  // One for the checker, which ends before the first test, and one that runs tests.
  concurrency: 1,
  // The working folder is a copy already.
  inPlace: true,
  reporters: ["json", "progress-append-only"],
  jsonReporter: { fileName: "mutation.json" },
  // A mutant may also wait for ever without a test that ends.
  timeoutMS: 120_000,
  dryRunTimeoutMinutes: 60
}

/** A copy of the working tree. */
const { folder: copy } = scratchCopy()

/** Runs Stryker in the copy, which is as before afterwards, and returns its report. */
const mutated = (): Report => {
  // What killed tests leave behind goes with it.
  const temporary = mkdtempSync(join(tmpdir(), "music-mutation-"))
  // The account of PostgreSQL reads there too.
  chmodSync(temporary, 0o755)
  process.once("exit", () => rmSync(temporary, { recursive: true, force: true }))
  writeFileSync(join(copy, "stryker.config.json"), JSON.stringify(settings))
  writeFileSync(join(copy, "sample.json"), JSON.stringify(sample.map(placeOf)))
  const stryker = "node_modules/@stryker-mutator/core/bin/stryker.js"
  const { status } = spawnSync(process.execPath, [stryker, "run"], {
    cwd: copy,
    stdio: ["ignore", "inherit", "inherit"],
    env: {
      ...process.env,
      TMPDIR: temporary,
      MUTATION_TESTS: tests.join(" ")
    }
  })
  if (status !== 0) process.exit(status ?? 1)
  return JSON.parse(readFileSync(join(copy, "mutation.json"), "utf8"))
}

/** Whether the program loads with a mutant. Stryker's runner takes a test file that cannot be loaded for one without tests. */
const loads = (mutant: Mutant): boolean => {
  const file = join(copy, mutant.file)
  const source = readFileSync(file, "utf8")
  writeFileSync(file, withMutant(source, mutant))
  const script = `await import("./src/Backend.ts"); await import("./src/cli/Program.ts")`
  const node = ["--import", "tsx", "--input-type=module", "--eval", script]
  const { status } = spawnSync(process.execPath, node, { cwd: copy })
  writeFileSync(file, source)
  return status === 0
}

const flat = (text: string): string => text.replaceAll(/\s+/g, " ").trim()

/** A line of equivalent.txt is `file: original → replacement # reason`; white space counts as one blank. */
const equivalents = new Set(
  readFileSync(join(root, "test/planted/equivalent.txt"), "utf8")
    .split("\n")
    .filter((line) => /^src\//.test(line))
    .map((line) => flat(line.replace(/ # [^#]*$/, "")))
)

const before = ({ column, line }: Place): Place => ({ line: line - 1, column: column - 1 })

/** The report on a mutant, by its place. */
const reported = new Map(
  Object.entries(mutated().files).flatMap(([file, { mutants }]) =>
    mutants.map((mutant) => {
      const { location, mutatorName: mutator, replacement = "", statusReason = "" } = mutant
      const [start, end] = [before(location.start), before(location.end)]
      const late = mutant.status === "Killed" && / timed out in \d+ms/.test(statusReason)
      const found = { always: mutant.static === true, status: late ? "Timeout" : mutant.status }
      return [placeOf({ file, start, end, mutator, original: "", replacement }), found]
    })
  )
)

const results = sample.map((mutant) => {
  const { file, mutator, original, replacement, start } = mutant
  const change = flat(`${file}: ${original} → ${replacement}`)
  const { always = false, status: verdict = "absent" } = reported.get(placeOf(mutant)) ?? {}
  const status = verdict === "Survived" && always && !loads(mutant) ? "Killed" : verdict
  return { status, file, line: start.line + 1, mutator, change, always, equivalent: equivalents.has(change) }
})

const isFound = ({ status }: { readonly status: string }) => status === "Killed" || status === "Timeout"
const score = (mutants: ReadonlyArray<{ readonly status: string }>): string => {
  // An invalid mutant says nothing about the tests.
  const valid = mutants.filter(({ status }) => !/Error|Ignored|absent/.test(status))
  const found = valid.filter(isFound).length
  return `${found} of ${valid.length}, ${((100 * found) / Math.max(1, valid.length)).toFixed(1)} %`
}

for (const { change, equivalent, line, status } of results.filter((mutant) => !isFound(mutant)))
  print(`${equivalent ? "equivalent" : status} ${line} ${change}`)
const apart = results.filter(({ equivalent, status }) => equivalent && !isFound({ status })).length
const summary = {
  folder,
  seed: values.seed,
  mutants: sample.length,
  "found by a time limit": results.filter(({ status }) => status === "Timeout").length,
  minutes: ((performance.now() - began) / 60_000).toFixed(1),
  score: score(results),
  equivalent: apart,
  "score without equivalent mutants": score(results.filter((one) => isFound(one) || !one.equivalent))
}
for (const [name, value] of Object.entries(summary)) print(`${name}: ${value}`)
if (values.out !== undefined)
  writeFileSync(values.out, `${JSON.stringify({ summary, results }, undefined, 1)}\n`)
if (apart > 0.03 * sample.length) {
  print("More than 3 % of the sample are listed as equivalent.")
  process.exit(1)
}
process.exit(0)
