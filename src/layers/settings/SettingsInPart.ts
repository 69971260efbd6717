/** Settings as far as they can be read: for commands that need some of them, and that tell what is wrong with the others. */
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type { SettingsValues } from "../../services/Settings.ts"
import { type Environment, readSettings } from "./Settings.ts"
import { settingsCatalogue } from "./SettingsCatalogue.ts"

export interface SettingProblem {
  readonly name: string
  /** What is wrong, without the value. */
  readonly text: string
}

export interface SettingsInPart {
  /** Where a problem names a setting, this one holds its default or a stand-in, which nothing may use. */
  readonly settings: SettingsValues
  readonly problems: ReadonlyArray<SettingProblem>
}

/** Whatever was put in the place of a bad setting did not help. */
export class SettingsUnreadable extends Data.TaggedError("SettingsUnreadable")<{
  readonly problems: ReadonlyArray<SettingProblem>
}> {}

/** `NAME: text`, as start-up lists them. */
const problemOf = (line: string): SettingProblem => {
  const [name = "", ...text] = line.split(": ")
  return { name, text: text.join(": ") }
}

const withoutBad = (environment: Environment, problems: ReadonlyArray<SettingProblem>): Environment => ({
  ...environment,
  ...Object.fromEntries(
    problems.map(({ name }) => [name, settingsCatalogue.find((entry) => entry.name === name)?.standIn])
  )
})

/** A bad setting can hide that of a group another is bad or missing: so often is looked again. */
const looks = 4

export const readSettingsInPart = (
  environment: Environment
): Effect.Effect<SettingsInPart, SettingsUnreadable> => {
  const look = (
    given: Environment,
    known: ReadonlyArray<SettingProblem>,
    left: number
  ): Effect.Effect<SettingsInPart, SettingsUnreadable> =>
    Effect.matchEffect(readSettings(given), {
      onSuccess: (settings) => Effect.succeed({ settings, problems: known }),
      onFailure: (invalid) => {
        const found = invalid.problems.map(problemOf)
        const problems = [...known, ...found.filter(({ name }) => !known.some((one) => one.name === name))]
        return left === 0
          ? Effect.fail(new SettingsUnreadable({ problems }))
          : look(withoutBad(given, found), problems, left - 1)
      }
    })
  return look(environment, [], looks)
}
