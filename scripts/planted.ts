/**
 * `npm run planted [-- NAME…] [--jobs 1]`: applies each patch of test/planted to a copy of the working tree, runs the suite that must
 * fail, and names the faults that live. A NAME is the beginning of a patch's name. The suites must hold without a fault.
 */
import { spawn, spawnSync } from "node:child_process"
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { dirname, join } from "node:path"
import { parseArgs } from "node:util"
import { root, scratchCopy } from "./Scratch.ts"

/** Of one suite; the slowest takes a minute on two idle cores. */
const longest = 20 * 60_000

const patches = join(root, "test/planted")
const print = (line: string) => process.stdout.write(`${line}\n`)

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { jobs: { type: "string", default: "1" } }
})

interface Fault {
  readonly name: string
  readonly rule: string
  /** As in the patch: `npx vitest run test/services`, `proof model` or `proof fairness -t reports`. */
  readonly suite: string
}

const header = (text: string, name: string): string =>
  new RegExp(`^${name}: (.+)$`, "m").exec(text)?.[1]?.trim() ?? ""

const faults: ReadonlyArray<Fault> = readdirSync(patches)
  .filter((file) => file.endsWith(".patch"))
  .map((file) => ({ name: file.replace(/\.patch$/, ""), text: readFileSync(join(patches, file), "utf8") }))
  .map(({ name, text }) => ({ name, rule: header(text, "Rule"), suite: header(text, "Suite") }))
  .filter(({ name }) => positionals.length === 0 || positionals.some((given) => name.startsWith(given)))
  .sort((one, other) => (`${one.suite} ${one.name}` < `${other.suite} ${other.name}` ? -1 : 1))

/** The arguments of vitest. A slice of a proof has a configuration of its own; `-t` and a text choose one of its tests. */
const argumentsOf = (suite: string): ReadonlyArray<string> | undefined => {
  const words = (suite.match(/"[^"]*"|\S+/g) ?? []).map((word) => word.replaceAll('"', ""))
  const [first, second, third, ...rest] = words
  if (first === "proof" && second !== undefined)
    return ["--config", "test/slow/vitest.config.ts", `test/proof/${second}/`, ...words.slice(2)]
  return first === "npx" && second === "vitest" && third === "run" && rest.length > 0 ? rest : undefined
}

type Verdict =
  | { readonly kind: "found"; readonly by: string }
  | { readonly kind: "LIVES" | "does not apply" | "does not compile" | "no end" | "no such suite" }

/** Of vitest's JSON reporter. */
interface Report {
  readonly testResults: ReadonlyArray<{
    readonly assertionResults: ReadonlyArray<{
      readonly fullName: string
      readonly status: string
      readonly failureMessages: ReadonlyArray<string>
    }>
  }>
}

/** A fault is found by a failed test, not by code that cannot be loaded or a suite that cannot begin. */
const judge = (file: string, failed: boolean): Verdict => {
  if (!existsSync(file)) return { kind: "no end" }
  const { testResults }: Report = JSON.parse(readFileSync(file, "utf8"))
  const by = testResults
    .flatMap(({ assertionResults }) => assertionResults)
    .find(
      ({ failureMessages, status }) =>
        status === "failed" && !failureMessages.some((text) => /^(?:Reference|Syntax)Error/.test(text))
    )
  if (by !== undefined) return { kind: "found", by: by.fullName }
  return { kind: failed ? "does not compile" : "LIVES" }
}

const play = async ({ name, suite }: Fault, copy: string): Promise<Verdict> => {
  const given = argumentsOf(suite)
  if (given === undefined) return { kind: "no such suite" }
  const patch = join(patches, `${name}.patch`)
  const apply = (...more: ReadonlyArray<string>) =>
    // Inside a repository, git would pass over the files of this folder.
    spawnSync("git", ["apply", ...more, patch], {
      cwd: copy,
      env: { ...process.env, GIT_CEILING_DIRECTORIES: dirname(copy) }
    }).status === 0
  if (!apply()) return { kind: "does not apply" }
  const output = join(copy, "planted.json")
  rmSync(output, { force: true })
  const reporter = ["--bail", "1", "--reporter", "json", "--outputFile", output]
  // A process group of its own, so that nothing of a suite that does not end stays.
  const running = spawn("node_modules/.bin/vitest", ["run", ...given, ...reporter], {
    cwd: copy,
    stdio: "ignore",
    detached: true
  })
  const stop = () => {
    if (running.pid !== undefined && running.exitCode === null) process.kill(-running.pid, "SIGKILL")
  }
  process.once("exit", stop)
  const timer = setTimeout(stop, longest)
  const code = await new Promise<number | null>((resolve) => running.once("exit", resolve))
  clearTimeout(timer)
  process.off("exit", stop)
  const verdict = judge(output, code !== 0)
  if (!apply("--reverse")) throw new Error(`${name} cannot be taken back`)
  return verdict
}

const waiting = [...faults]
const not: Array<string> = []
const work = async (): Promise<void> => {
  const { folder, remove } = scratchCopy()
  for (let fault = waiting.shift(); fault !== undefined; fault = waiting.shift()) {
    const began = performance.now()
    const verdict = await play(fault, folder)
    const seconds = `${Math.round((performance.now() - began) / 1000)} s`
    if (verdict.kind === "found")
      print(`found in ${seconds}: ${fault.name} (${fault.suite}) by "${verdict.by}"`)
    else {
      not.push(fault.name)
      print(`${verdict.kind}, ${seconds}: ${fault.name} (${fault.suite}): ${fault.rule}`)
    }
  }
  remove()
}

if (faults.length === 0) print("No such patch.")
await Promise.all(Array.from({ length: Number(values.jobs) }, work))
print(`${faults.length - not.length} of ${faults.length} found`)
if (not.length > 0) print(`not found: ${not.join(", ")}`)
process.exit(not.length === 0 && faults.length > 0 ? 0 : 1)
