/** Checks the settings of the environment: bad values, and names that are no setting. */
import { sourceOf } from "../settings/EnvironmentReader.ts"
import { fileVariableOf } from "../settings/SecretFile.ts"
import type { Environment, SettingProblem } from "../settings/Settings.ts"
import { settingEntries } from "../settings/SettingsTable.ts"
import { unknownVariables } from "../settings/UnknownVariables.ts"
import { type Finding, fail, pass, warn } from "./Finding.ts"

const fixOf = (environment: Environment, name: string): string => {
  const entry = settingEntries.find((one) => one.name === name)
  const file = fileVariableOf(name)
  if (entry?.secret === true && (environment[file] ?? "") !== "")
    return `correct ${file} or the content of its file; ${name} itself must then be unset`
  const meaning = entry === undefined ? "" : ` (${entry.meaning})`
  if (entry?.default !== undefined)
    return `set ${name}${meaning}, or remove it for its default, ${entry.default}`
  return entry?.rare === true
    ? `correct or remove ${name}${meaning}`
    : `set ${name}${meaning}; .env.example shows its form`
}

export const checkSettings = (
  environment: Environment,
  problems: ReadonlyArray<SettingProblem>
): ReadonlyArray<Finding> => {
  const known = settingEntries.filter(({ name }) => name.startsWith("MUSIC_"))
  const set = known.filter((entry) => sourceOf(environment, entry)._tag !== "Absent").length
  const bad = problems.map(({ name, problem }) =>
    fail("settings", `${name} ${problem}`, fixOf(environment, name))
  )
  return [
    ...(bad.length === 0
      ? [pass("settings", `${set} set, ${known.length - set} at their default or off`)]
      : bad),
    ...unknownVariables(environment).map(({ fix, name, problem }) =>
      warn("settings", `${name} ${problem}`, fix)
    )
  ]
}
