import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { readSettings, sourceOf } from "../../layers/settings/Settings.ts"
import { redact } from "../../services/text/Redaction.ts"
import { type SettingEntry, settingEntries } from "../../services/settings/SettingsTable.ts"
import { Host } from "../Host.ts"
import { flag, json } from "../Options.ts"
import { field, type Noun, printPage } from "../Output.ts"

interface ShownSetting {
  readonly entry: SettingEntry
  readonly given: ReturnType<typeof sourceOf>
  readonly problem: string | null
}

const isGiven = ({ given }: ShownSetting): boolean => given._tag !== "Absent"

/** None when it is unset, secret or bad: a bad value may be a secret in the wrong place. */
const valueOf = ({ entry, given, problem }: ShownSetting): string | null => {
  if (entry.secret === true || problem !== null) return null
  if (given._tag === "Variable") return redact(given.value)
  return given._tag === "Absent" ? (entry.default ?? null) : null
}

const valueText = (setting: ShownSetting): string => {
  if (setting.problem !== null) return `bad: ${setting.problem}`
  if (setting.entry.secret === true) return isGiven(setting) ? "set" : "unset"
  return valueOf(setting) ?? ""
}

const sourceName = ({ entry, given }: ShownSetting): string => {
  if (given._tag === "Absent") return entry.default === undefined ? "unset" : "default"
  return given._tag === "File" ? "file" : "environment"
}

/** The name of the file that holds the value. None when there is a problem: a secret may be in the place of the name. */
const fileOf = ({ given, problem }: ShownSetting): string | null =>
  given._tag === "File" && problem === null ? redact(given.path) : null

const setting: Noun<ShownSetting> = {
  plural: "settings",
  fields: [
    field("name", "setting", ({ entry }) => entry.name),
    field("value", "value", valueOf, valueText),
    field("source", "from", sourceName, (it) => [sourceName(it), fileOf(it) ?? ""].join(" ")),
    field("meaning", "meaning", ({ entry }) => entry.meaning),
    field("file", "", fileOf),
    field("default", "", ({ entry }) => entry.default),
    field("required", "", ({ entry }) => entry.required === true),
    field("secret", "", ({ entry }) => entry.secret === true),
    field("problem", "", ({ problem }) => problem)
  ]
}

const changed = flag("changed", "only settings that the environment sets, or must set")

export const config = Command.make("config", { changed, json }, (given) =>
  Effect.gen(function* () {
    const { environment, err } = yield* Host
    const problems = new Map(readSettings(environment).problems.map(({ name, problem }) => [name, problem]))
    const items = settingEntries
      .map((entry) => ({
        entry,
        given: sourceOf(environment, entry),
        problem: problems.get(entry.name) ?? null
      }))
      .filter((it) => isGiven(it) || it.problem !== null || !given.changed)
    yield* printPage(setting, { items, next: Option.none() }, given.json)
    if (problems.size > 0)
      yield* err("\nThe server does not start with these settings: music-backend check prints the fixes.")
  })
).pipe(Command.withDescription("Shows every setting with its value or default; secrets only as set or unset"))
