import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import type { Finding, Status } from "../../layers/diagnostics/Probe.ts"
import { CommandFailed, Host } from "../Host.ts"
import { json } from "../Options.ts"
import { printJson, toSingleLine, toTable } from "../Output.ts"

const count = (findings: ReadonlyArray<Finding>, status: Status): number =>
  findings.filter((finding) => finding.status === status).length

/** One line for each finding, with its fix below. */
const rendered = (findings: ReadonlyArray<Finding>): string =>
  toTable(
    findings.flatMap(({ fix, found, name, status }) => [
      [status, name, toSingleLine(found)],
      ...(fix === null ? [] : [["", "", `-> ${toSingleLine(fix)}`]])
    ])
  )

const summary = (findings: ReadonlyArray<Finding>): string =>
  `${count(findings, "PASS")} passed, ${count(findings, "WARN")} warnings, ${count(findings, "FAIL")} failed, ${count(findings, "SKIP")} skipped`

export const check = Command.make("check", { json }, (given) =>
  Effect.gen(function* () {
    const { environment, out } = yield* Host
    const { runChecks } = yield* Effect.promise(() => import("../../layers/diagnostics/Checks.ts"))
    const findings = yield* runChecks(environment)
    const failed = count(findings, "FAIL")
    if (given.json)
      yield* printJson({
        status: failed > 0 ? "FAIL" : count(findings, "WARN") > 0 ? "WARN" : "PASS",
        checks: findings
      })
    else yield* out(`${rendered(findings)}\n\n${summary(findings)}`)
    if (failed > 0) return yield* new CommandFailed({ exit: 1, lines: [] })
  })
).pipe(
  Command.withDescription(
    "Checks settings, database, clock, upstreams, keys and rights, and prints a fix for each problem; stores and files nothing. Exits with 1 when a check failed"
  )
)
