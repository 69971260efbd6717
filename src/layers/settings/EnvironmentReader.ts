import * as Either from "effect/Either"
import { type SettingName, type SettingValue, settingEntries, settings } from "./SettingsTable.ts"

export type Environment = Readonly<Record<string, string | undefined>>

export interface SettingProblem {
  readonly name: string
  /** The reason, without the value. */
  readonly problem: string
}

/** Reads settings one by one and collects the problems of those that were read. */
export class EnvironmentReader {
  readonly #problems = new Map<string, string>()

  constructor(readonly environment: Environment) {}

  /** An empty variable counts as absent. */
  isSet(name: SettingName): boolean {
    return (this.environment[name] ?? "") !== ""
  }

  /** The value; after a problem, the value of an absent setting. */
  get<N extends SettingName>(name: N): SettingValue<N> {
    const { absent, parse, required } = settings[name]
    const raw = this.environment[name] ?? ""
    if (raw === "") {
      if (required === true) this.report(name, "is required")
      return absent
    }
    return Either.getOrElse(parse(raw), (problem) => {
      this.report(name, problem)
      return absent
    })
  }

  /** Records a problem. Of several problems of one setting the first counts. */
  report(name: SettingName, problem: string): void {
    if (!this.#problems.has(name)) this.#problems.set(name, problem)
  }

  /** Whether no problem of it was found so far. */
  isGood(name: SettingName): boolean {
    return !this.#problems.has(name)
  }

  /** In the order of the table. */
  get problems(): ReadonlyArray<SettingProblem> {
    return settingEntries.flatMap(({ name }) => {
      const problem = this.#problems.get(name)
      return problem === undefined ? [] : [{ name, problem }]
    })
  }
}
