/** Commands that judge and show the settings: `check` and `config`. */
import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Finding, Status } from "../../layers/diagnostics/Probe.ts"
import { type Environment, givenOf, readSettings } from "../../layers/settings/Settings.ts"
import { redact } from "../../services/text/Redaction.ts"
import { type SettingEntry, settingEntries } from "../../services/settings/SettingsTable.ts"
import { CommandFailed, field, Host, type Noun, printJson, printPage, toTable } from "../Host.ts"
import { flag, json } from "../Options.ts"

/** One line for each finding, with its fix below. */
const toLines = ({ fix, found, name, status }: Finding): ReadonlyArray<ReadonlyArray<string>> => [
  [status, name, found],
  ...(fix === null ? [] : [["", "", `-> ${fix}`]])
]

export const check = Command.make("check", { json }, (given) =>
  Effect.gen(function* () {
    const { environment, out } = yield* Host
    const { runChecks } = yield* Effect.promise(() => import("../../layers/diagnostics/Checks.ts"))
    const checks = yield* runChecks(environment)
    const count = (wanted: Status) => checks.filter(({ status }) => status === wanted).length
    const [failed, warnings] = [count("FAIL"), count("WARN")]
    if (given.json) yield* printJson({ status: failed > 0 ? "FAIL" : warnings > 0 ? "WARN" : "PASS", checks })
    else {
      const sums = `${count("PASS")} passed, ${warnings} warnings, ${failed} failed, ${count("SKIP")} skipped`
      yield* out(`${toTable(checks.flatMap(toLines))}\n\n${sums}`)
    }
    if (failed > 0) return yield* new CommandFailed({ exit: 1 })
  })
).pipe(
  Command.withDescription("Checks settings, database, upstreams, keys and rights; has a fix for each problem")
)

/** A bad value is not shown: it may be a secret in the wrong place. So may the name of its file. */
const show = (entry: SettingEntry, environment: Environment, problem: string | null) => {
  const { isSet, path, value } = givenOf(environment, entry)
  const absent = entry.default === undefined ? "unset" : "default"
  const given = value === "" ? "file" : "environment"
  return {
    entry,
    problem,
    isSet,
    value: entry.secret || problem !== null ? null : isSet ? redact(value) : (entry.default ?? null),
    source: isSet ? given : absent,
    file: path === "" || problem !== null ? null : redact(path)
  }
}
type ShownSetting = ReturnType<typeof show>

const toText = ({ entry, file, isSet, problem, value }: ShownSetting): string => {
  if (problem !== null) return `bad: ${problem}`
  return entry.secret ? (file ?? (isSet ? "set" : "unset")) : (value ?? "")
}

const setting: Noun<ShownSetting> = {
  plural: "settings",
  fields: [
    field("name", "setting", ({ entry }) => entry.name),
    field("value", "value", ({ value }) => value, toText),
    field("source", "from", ({ source }) => source),
    field("meaning", "meaning", ({ entry }) => entry.meaning),
    field("file", "", ({ file }) => file),
    field("problem", "", ({ problem }) => problem)
  ]
}

const changed = flag("changed", "only settings that the environment sets, or must set")

export const config = Command.make("config", { changed, json }, (given) =>
  Effect.gen(function* () {
    const { environment, err } = yield* Host
    const problems = new Map(readSettings(environment).problems.map(({ name, problem }) => [name, problem]))
    const items = settingEntries
      .map((entry) => show(entry, environment, problems.get(entry.name) ?? null))
      .filter((it) => it.isSet || it.problem !== null || !given.changed)
    yield* printPage(setting, { items, next: Option.none() }, given.json)
    if (problems.size > 0)
      yield* err("\nThe server does not start with these settings: music-backend check prints the fixes.")
  })
).pipe(Command.withDescription("Shows every setting with its value or default; secrets only as set or unset"))
