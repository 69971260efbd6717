import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import { sourceOf } from "../../layers/settings/EnvironmentReader.ts"
import { type Environment, readSettings } from "../../layers/settings/Settings.ts"
import { type SettingEntry, settingEntries } from "../../layers/settings/SettingsTable.ts"
import { redact } from "../../services/Redaction.ts"
import { json } from "../Flags.ts"
import { type Colour, printJson, printTable, Screen } from "../Screen.ts"
import { CliEnvironment } from "../Environment.ts"

interface ShownSetting extends SettingEntry {
  /** Null when it is unset, secret or bad: a bad value may be a secret in the wrong place. */
  readonly value: string | null
  readonly source: "environment" | "file" | "default" | "unset"
  /** The name of the file that holds the value. Null also when there is a problem: a secret may be in the place of the name. */
  readonly file: string | null
  readonly problem: string | null
}

const show = (entry: SettingEntry, environment: Environment, problem: string | null): ShownSetting => {
  const isHidden = entry.secret === true || problem !== null
  const given = sourceOf(environment, entry)
  const facts = { ...entry, file: null, problem }
  switch (given._tag) {
    case "Variable":
      return { ...facts, source: "environment", value: isHidden ? null : redact(given.value) }
    case "Both":
      return { ...facts, source: "environment", value: null }
    case "File":
      return { ...facts, source: "file", file: problem === null ? redact(given.path) : null, value: null }
    case "Absent": {
      const source = entry.default === undefined ? "unset" : "default"
      return { ...facts, source, value: isHidden ? null : (entry.default ?? null) }
    }
  }
}

const isGiven = ({ source }: ShownSetting): boolean => source === "environment" || source === "file"

const valueText = (setting: ShownSetting): string => {
  const { problem, secret, value } = setting
  if (problem !== null) return `bad: ${problem}`
  return secret === true ? (isGiven(setting) ? "set" : "unset") : (value ?? "")
}

const sourceText = ({ file, source }: ShownSetting): string => {
  if (source === "unset") return ""
  return file === null ? source : `file ${file}`
}

const colourOf = (setting: ShownSetting): Colour | undefined => {
  if (setting.problem !== null) return "red"
  return isGiven(setting) ? undefined : "dim"
}

const changed = Options.boolean("changed").pipe(
  Options.withDescription("only settings that the environment sets, or must set")
)

export const config = Command.make("config", { changed, json }, (given) =>
  Effect.gen(function* () {
    const environment = yield* CliEnvironment
    const { problems } = readSettings(environment)
    const all = settingEntries.map((entry) =>
      show(entry, environment, problems.find(({ name }) => name === entry.name)?.problem ?? null)
    )
    const items = given.changed
      ? all.filter((setting) => isGiven(setting) || setting.problem !== null)
      : all.filter((setting) => !setting.rare || isGiven(setting) || setting.problem !== null)
    if (given.json)
      return yield* printJson({
        items: items.map((item) => ({
          name: item.name,
          value: item.value,
          source: item.source,
          file: item.file,
          default: item.default ?? null,
          required: item.required === true,
          secret: item.secret === true,
          problem: item.problem,
          meaning: item.meaning
        })),
        next: null
      })
    yield* printTable(
      [
        { title: "SETTING", of: (item) => item.name },
        { title: "VALUE", of: valueText, colour: colourOf },
        { title: "FROM", of: sourceText },
        { title: "MEANING", of: (item) => item.meaning, elastic: true }
      ],
      items
    )
    if (problems.length > 0)
      yield* (yield* Screen).err(
        "\nThe server does not start with these settings: music-backend check prints the fixes."
      )
  })
).pipe(Command.withDescription("Shows every setting with its value or default; secrets only as set or unset"))
