/** Variables of the environment that look like settings and have no effect. */
import type { Environment } from "./EnvironmentReader.ts"
import { fileVariableOf } from "./SecretFile.ts"
import { settingEntries } from "./SettingsTable.ts"

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

/** Of clients, which may have the same environment (specification.md, "Testing environments"; examples). */
const clientVariables: ReadonlyArray<string> = [
  "MUSIC_TEST_APP_SECRET",
  "MUSIC_URL",
  "MUSIC_PATIENCE",
  "MUSIC_DAEMON_TICKS",
  "MUSIC_DAEMON_PAUSE"
]

/** The variables that are read: those of the settings, and those that name the files of secrets. */
const variables: ReadonlyArray<string> = settingEntries.flatMap(({ name, secret }) =>
  secret === true ? [name, fileVariableOf(name)] : [name]
)

const nearest = (name: string): string | undefined =>
  variables
    .map((variable) => ({ name: variable, steps: distance(name, variable) }))
    .filter(({ steps }) => steps <= 4)
    .sort((left, right) => left.steps - right.steps)[0]?.name

export interface UnknownVariable {
  readonly name: string
  readonly problem: string
  readonly fix: string
}

const describe = (name: string): UnknownVariable => {
  const plain = settingEntries.find((entry) => fileVariableOf(entry.name) === name)?.name
  if (plain !== undefined)
    return {
      name,
      problem: "has no effect: only secrets are read from files",
      fix: `set ${plain} to the value`
    }
  const similar = nearest(name)
  return {
    name,
    problem: `is not a setting${similar === undefined ? "" : `; did you mean ${similar}?`}`,
    fix: similar === undefined ? "remove it" : `rename it to ${similar}`
  }
}

/** By name. Their values are not read: one may be a secret. */
export const unknownVariables = (environment: Environment): ReadonlyArray<UnknownVariable> =>
  Object.keys(environment)
    .filter((name) => name.startsWith("MUSIC_") && (environment[name] ?? "") !== "")
    .filter((name) => !variables.includes(name) && !clientVariables.includes(name))
    .sort()
    .map(describe)
