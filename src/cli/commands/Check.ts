import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import { type Finding, type Status, warn } from "../../layers/diagnostics/Probe.ts"
import { CommandFailed, exits } from "../CommandFailed.ts"
import { json } from "../Flags.ts"
import { type Colour, colourise, printJson, Screen, type ScreenService } from "../Screen.ts"
import { CliEnvironment, FromFileOnly } from "../Environment.ts"
import { toSingleLine, pad } from "../Text.ts"

const colours: Readonly<Record<Status, Colour>> = { PASS: "green", WARN: "yellow", FAIL: "red", SKIP: "dim" }

const count = (findings: ReadonlyArray<Finding>, status: Status): number =>
  findings.filter((finding) => finding.status === status).length

/** One line for each finding, with its fix below. */
const rendered = (screen: ScreenService, findings: ReadonlyArray<Finding>): string => {
  const width = Math.max(...findings.map(({ name }) => name.length))
  return findings
    .map(({ found, fix, name, status }) => {
      const line = `${colourise(screen, colours[status], status)}  ${pad(name, width)}  ${toSingleLine(found)}`
      return fix === null
        ? line
        : `${line}\n      ${" ".repeat(width)}  ${colourise(screen, "dim", "->")} ${toSingleLine(fix)}`
    })
    .join("\n")
}

const summary = (findings: ReadonlyArray<Finding>): string =>
  `${count(findings, "PASS")} passed, ${count(findings, "WARN")} warnings, ${count(findings, "FAIL")} failed, ${count(findings, "SKIP")} skipped`

const authorities = "NODE_EXTRA_CA_CERTS"

/** Node reads the variable at the start of the process, before the file is read. */
const checkAuthorities = (fromFile: ReadonlyArray<string>): ReadonlyArray<Finding> =>
  fromFile.includes(authorities)
    ? [
        {
          name: "certificates",
          ...warn(
            `${authorities} in the file of --env-file has no effect`,
            "set it in the environment of the process"
          )
        }
      ]
    : []

export const check = Command.make("check", { json }, (given) =>
  Effect.gen(function* () {
    const screen = yield* Screen
    const { runChecks } = yield* Effect.promise(() => import("../../layers/diagnostics/Checks.ts"))
    const checked = yield* runChecks(yield* CliEnvironment)
    const findings = [...checkAuthorities(yield* FromFileOnly), ...checked]
    const failed = count(findings, "FAIL")
    if (given.json)
      yield* printJson({
        status: failed > 0 ? "FAIL" : count(findings, "WARN") > 0 ? "WARN" : "PASS",
        checks: findings
      })
    else yield* screen.out(`${rendered(screen, findings)}\n\n${summary(findings)}`)
    if (failed > 0) return yield* new CommandFailed({ exit: exits.no, lines: [] })
  })
).pipe(
  Command.withDescription(
    "Checks settings, database, clock, upstreams, keys and rights, and prints a fix for each problem; stores and files nothing. Exits with 1 when a check failed"
  )
)
