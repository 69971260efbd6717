import * as Either from "effect/Either"
import { fileVariableOf, readSecretFile } from "./SecretFile.ts"
import { type SettingName, type SettingValue, settingEntries, settings } from "./SettingsTable.ts"

export type Environment = Readonly<Record<string, string | undefined>>

/** Where a setting is given: in its own variable, in the file that its second variable names, or nowhere. */
export type SettingSource =
  | { readonly _tag: "Variable"; readonly value: string }
  | { readonly _tag: "File"; readonly path: string }
  | { readonly _tag: "Both" }
  | { readonly _tag: "Absent" }

/** An empty variable counts as absent. Only a secret may be in a file. */
export const sourceOf = (
  environment: Environment,
  { name, secret }: { readonly name: string; readonly secret?: true }
): SettingSource => {
  const value = environment[name] ?? ""
  const path = secret === true ? (environment[fileVariableOf(name)] ?? "") : ""
  if (value !== "" && path !== "") return { _tag: "Both" }
  if (path !== "") return { _tag: "File", path }
  return value === "" ? { _tag: "Absent" } : { _tag: "Variable", value }
}

export interface SettingProblem {
  readonly name: string
  /** The reason, without the value. */
  readonly problem: string
}

/** Reads settings one by one and collects the problems of those that were read. */
export class EnvironmentReader {
  readonly #problems = new Map<string, string>()
  /** Each file is read once: two reads could see two secrets. */
  readonly #files = new Map<SettingName, Either.Either<string, string>>()

  constructor(readonly environment: Environment) {}

  /** In its variable or in a file. */
  isSet(name: SettingName): boolean {
    return this.#sourceOf(name)._tag !== "Absent"
  }

  /** The value; after a problem, the value of an absent setting. */
  get<N extends SettingName>(name: N): SettingValue<N> {
    const { absent, parse, required } = settings[name]
    const source = this.#sourceOf(name)
    const refuse = (problem: string) => {
      this.report(name, problem)
      return absent
    }
    switch (source._tag) {
      case "Absent":
        return required === true ? refuse("is required") : absent
      case "Both":
        return refuse(`is set, and ${fileVariableOf(name)} too: remove one of them`)
      case "Variable":
        return Either.getOrElse(parse(source.value), refuse)
      case "File":
        return Either.getOrElse(
          Either.flatMap(this.#contentOf(name, source.path), (content) =>
            Either.mapLeft(
              parse(content),
              (problem) => `${problem}; it is in the file of ${fileVariableOf(name)}`
            )
          ),
          refuse
        )
    }
  }

  #sourceOf(name: SettingName): SettingSource {
    return sourceOf(this.environment, { name, ...settings[name] })
  }

  #contentOf(name: SettingName, path: string): Either.Either<string, string> {
    const read =
      this.#files.get(name) ??
      Either.mapLeft(readSecretFile(path), (reason) => `the file of ${fileVariableOf(name)} ${reason}`)
    this.#files.set(name, read)
    return read
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
