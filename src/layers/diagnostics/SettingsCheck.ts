/** Checks the settings of the environment: bad values, and names that are no setting. */
import { sourceOf } from "../settings/EnvironmentReader.ts"
import { fileVariableOf } from "../settings/SecretFile.ts"
import type { Environment, SettingProblem } from "../settings/Settings.ts"
import { settingEntries } from "../settings/SettingsTable.ts"
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

/** Levenshtein distance. */
const distance = (one: string, other: string): number => {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index)
  for (const [at, letter] of [...one].entries()) {
    const next = [at + 1]
    for (const [index, wanted] of [...other].entries())
      next.push(
        Math.min(
          (next[index] ?? 0) + 1,
          (row[index + 1] ?? 0) + 1,
          (row[index] ?? 0) + (letter === wanted ? 0 : 1)
        )
      )
    row = next
  }
  return row.at(-1) ?? 0
}

/** The variables that are read: those of the settings, and those that name the files of secrets. */
const variables: ReadonlyArray<string> = settingEntries.flatMap(({ name, secret }) =>
  secret === true ? [name, fileVariableOf(name)] : [name]
)

const nearest = (name: string): string | undefined =>
  variables
    .map((variable) => ({ name: variable, steps: distance(name, variable) }))
    .filter(({ steps }) => steps <= 4)
    .sort((left, right) => left.steps - right.steps)[0]?.name

/** Warns of variables that look like settings and have no effect. */
const unknownSettings = (environment: Environment): ReadonlyArray<Finding> =>
  Object.keys(environment)
    .filter((name) => name.startsWith("MUSIC_") && (environment[name] ?? "") !== "")
    .filter((name) => !variables.includes(name))
    .sort()
    .map((name) => {
      const plain = settingEntries.find((entry) => fileVariableOf(entry.name) === name)?.name
      if (plain !== undefined)
        return warn(
          "settings",
          `${name} has no effect: only secrets are read from files`,
          `set ${plain} to the value`
        )
      const similar = nearest(name)
      return warn(
        "settings",
        `${name} is not a setting${similar === undefined ? "" : `; did you mean ${similar}?`}`,
        similar === undefined ? "remove it" : `rename it to ${similar}`
      )
    })

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
    ...unknownSettings(environment)
  ]
}
