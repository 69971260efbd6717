import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import { readSettings } from "../../layers/settings/Settings.ts"
import { type SettingEntry, settingEntries } from "../../layers/settings/SettingsTable.ts"
import { redact } from "../../services/Redaction.ts"
import { json } from "../Flags.ts"
import { type Colour, printJson, printTable, Screen } from "../Screen.ts"
import { CliEnvironment } from "../Environment.ts"

interface ShownSetting extends SettingEntry {
  /** Null when it is unset, secret or bad: a bad value may be a secret in the wrong place. */
  readonly value: string | null
  readonly source: "environment" | "default" | "unset"
  readonly problem: string | null
}

const show = (entry: SettingEntry, given: string, problem: string | null): ShownSetting => {
  const isHidden = entry.secret === true || problem !== null
  if (given !== "")
    return { ...entry, source: "environment", value: isHidden ? null : redact(given), problem }
  const source = entry.default === undefined ? "unset" : "default"
  return { ...entry, source, value: isHidden ? null : (entry.default ?? null), problem }
}

const valueText = ({ problem, secret, source, value }: ShownSetting): string => {
  if (problem !== null) return `bad: ${problem}`
  return secret === true ? (source === "environment" ? "set" : "unset") : (value ?? "")
}

const colourOf = ({ problem, source }: ShownSetting): Colour | undefined => {
  if (problem !== null) return "red"
  return source === "environment" ? undefined : "dim"
}

const changed = Options.boolean("changed").pipe(
  Options.withDescription("only settings that the environment sets, or must set")
)

export const config = Command.make("config", { changed, json }, (given) =>
  Effect.gen(function* () {
    const environment = yield* CliEnvironment
    const { problems } = readSettings(environment)
    const all = settingEntries.map((entry) =>
      show(
        entry,
        environment[entry.name] ?? "",
        problems.find(({ name }) => name === entry.name)?.problem ?? null
      )
    )
    const items = given.changed
      ? all.filter(({ problem, source }) => source === "environment" || problem !== null)
      : all.filter(({ problem, rare, source }) => !rare || source === "environment" || problem !== null)
    if (given.json)
      return yield* printJson({
        items: items.map((item) => ({
          name: item.name,
          value: item.value,
          source: item.source,
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
        { title: "FROM", drop: 1, of: (item) => (item.source === "unset" ? "" : item.source) },
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
