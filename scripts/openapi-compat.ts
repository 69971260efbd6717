/**
 * Tells whether a change of the contract breaks clients that exist: `openapi-compat [<old>] [<new.json>]`. The old document
 * is a file, or a git reference whose docs/openapi.json is meant; by default docs/openapi.released.json. The new one is
 * by default what the source says now. Prints a line a finding; exits with 1 when one of them is a break, and with 2
 * when a document cannot be read.
 */
import { execFileSync } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { compare } from "./compat/compare.ts"

const committed = new URL("../docs/openapi.released.json", import.meta.url)

const oldText = (given: string | undefined): string => {
  if (given === undefined) return readFileSync(committed, "utf8")
  if (existsSync(given)) return readFileSync(given, "utf8")
  return execFileSync("git", ["show", `${given}:docs/openapi.json`], {
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024,
    stdio: ["ignore", "pipe", "inherit"]
  })
}

const newDocument = async (given: string | undefined): Promise<unknown> =>
  given === undefined
    ? (await import("../src/http/openapi/OpenApiDocument.ts")).openApi()
    : JSON.parse(readFileSync(given, "utf8"))

const main = async (): Promise<number> => {
  const [before, after] = process.argv.slice(2)
  const findings = compare(JSON.parse(oldText(before)), await newDocument(after))
  for (const { level, where, what } of findings) process.stdout.write(`${level}: ${where}: ${what}\n`)
  const breaks = findings.filter(({ level }) => level === "break").length
  process.stdout.write(breaks === 0 ? "no break\n" : `${breaks} ${breaks === 1 ? "break" : "breaks"}\n`)
  return breaks === 0 ? 0 : 1
}

process.exitCode = await main().catch((problem: unknown) => {
  process.stderr.write(`${problem instanceof Error ? problem.message : String(problem)}\n`)
  return 2
})
