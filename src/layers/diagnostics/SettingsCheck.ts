/** What the environment says, setting by setting. */
import type { Environment } from "../settings/Settings.ts"
import { type SettingEntry, settingsCatalogue } from "../settings/SettingsCatalogue.ts"
import type { SettingProblem } from "../settings/SettingsInPart.ts"
import { type Finding, fail, pass, warn } from "./Finding.ts"

const fixOf = (name: string): string => {
  const entry: SettingEntry | undefined = settingsCatalogue.find((one) => one.name === name)
  const what = entry === undefined ? "" : ` (${entry.meaning})`
  return entry?.required === true || entry?.fallback === undefined
    ? `set ${name}${what}; .env.example shows its form`
    : `set ${name}${what}, or leave it out for its default, ${entry.fallback}`
}

/** Steps from one word to the other: letters added, left out or changed. */
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

const nearest = (name: string): string | undefined =>
  settingsCatalogue
    .map((entry) => ({ name: entry.name, steps: distance(name, entry.name) }))
    .filter(({ steps }) => steps <= 4)
    .sort((left, right) => left.steps - right.steps)[0]?.name

/** A setting that nobody reads looks as if it did something. */
const strangers = (environment: Environment): ReadonlyArray<Finding> =>
  Object.keys(environment)
    .filter((name) => name.startsWith("MUSIC_") && (environment[name] ?? "") !== "")
    .filter((name) => !settingsCatalogue.some((entry) => entry.name === name))
    .sort()
    .map((name) => {
      const meant = nearest(name)
      return warn(
        "settings",
        `${name} is no setting${meant === undefined ? "" : `; did you mean ${meant}?`}`,
        meant === undefined ? "leave it out" : `rename it to ${meant}`
      )
    })

export const checkSettings = (
  environment: Environment,
  problems: ReadonlyArray<SettingProblem>
): ReadonlyArray<Finding> => {
  const known = settingsCatalogue.filter(({ name }) => name.startsWith("MUSIC_"))
  const set = known.filter(({ name }) => (environment[name] ?? "") !== "").length
  const bad = problems.map(({ name, text }) => fail("settings", `${name} ${text}`, fixOf(name)))
  return [
    ...(bad.length === 0
      ? [pass("settings", `${set} set, ${known.length - set} at their default or off`)]
      : bad),
    ...strangers(environment)
  ]
}
