/** Settings from environment variables. One bad or missing variable never hides the others. */
import { readFileSync } from "node:fs"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Record from "effect/Record"
import { errorCode } from "../../services/ErrorCode.ts"
import { proxyAddress } from "../../services/settings/Parsers.ts"
import { graceAfterDeadline, Settings, type SettingsValues, toSettings } from "../../services/Settings.ts"
import {
  isSetting,
  type Setting,
  type SettingEntry,
  settingEntries,
  settingsTable,
  type SettingValues
} from "../../services/settings/SettingsTable.ts"

export type Environment = Readonly<Record<string, string | undefined>>

export interface SettingProblem {
  readonly name: string
  /** The reason, without the value. */
  readonly problem: string
}

export class SettingsInvalid extends Data.TaggedError("SettingsInvalid")<{
  readonly problems: ReadonlyArray<SettingProblem>
}> {}

/** Where a setting is given: in its own variable, in the file that its second variable names, or nowhere. */
export type SettingSource =
  | { readonly _tag: "Variable"; readonly value: string }
  | { readonly _tag: "File"; readonly path: string }
  | { readonly _tag: "Both" }
  | { readonly _tag: "Absent" }

/** The variable that names the file of a secret setting, as Docker and Kubernetes mount it. */
const fileVariableOf = (name: string): string => `${name}_FILE`

/** An empty variable counts as absent. Only a secret may be in a file. */
export const sourceOf = (environment: Environment, { name, secret }: SettingEntry): SettingSource => {
  const value = environment[name] ?? ""
  const path = secret === true ? (environment[fileVariableOf(name)] ?? "") : ""
  if (path !== "") return value === "" ? { _tag: "File", path } : { _tag: "Both" }
  return value === "" ? { _tag: "Absent" } : { _tag: "Variable", value }
}

/** The content without its final line end. The reason names neither file nor content: a secret may be in the place of the name. */
const readSecret = (path: string): Either.Either<string, string> =>
  Either.try({
    try: () => readFileSync(path, "utf8").replace(/\r?\n$/, ""),
    catch: (error) => `cannot be read (${errorCode(error)})`
  }).pipe(
    Either.filterOrLeft(
      (content) => content !== "",
      () => "is empty"
    )
  )

/** The value, or its problem. */
const parseSetting = <A>(environment: Environment, setting: Setting<A>): Either.Either<A, string> => {
  const source = sourceOf(environment, setting)
  const file = fileVariableOf(setting.name)
  switch (source._tag) {
    case "Absent":
      return setting.required === true ? Either.left("is required") : Either.right(setting.absent)
    case "Both":
      return Either.left(`is set, and ${file} too: remove one of them`)
    case "Variable":
      return setting.parse(source.value)
    case "File":
      return Either.mapLeft(readSecret(source.path), (reason) => `the file of ${file} ${reason}`).pipe(
        Either.flatMap((content) =>
          Either.mapLeft(setting.parse(content), (problem) => `${problem}; it is in the file of ${file}`)
        )
      )
  }
}

/** Undici reads these, and does not start with a bad one. */
export const proxyVariables = ["https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY"]

export interface SettingsRead {
  /** A setting that a problem names has its default here, or a placeholder, which nothing may use. */
  readonly settings: SettingsValues
  /** All of them, in the order of the table; one of each setting. */
  readonly problems: ReadonlyArray<SettingProblem>
}

/** Rules of several settings: which one is wrong, when, and why. A setting's own problem comes first. */
const rulesOf = (isSet: (entry: SettingEntry) => boolean, values: SettingValues) => {
  const { iam, requestDeadlineSeconds: deadline, shutdownGraceSeconds: grace, ...table } = settingsTable
  const {
    previousWebhookKeyVersion: version,
    previousWebhookSecret: secret,
    webhookKeyVersion: current
  } = iam
  const { tablesUrl, trackerRepository: repository, trackerToken: token } = table
  const least = values.requestDeadlineSeconds + graceAfterDeadline
  const isOpen = Object.values(table.tableKeys).some(isSet)
  const isSame = Option.contains(values.iam.previousWebhookKeyVersion, values.iam.webhookKeyVersion)
  return [
    [tablesUrl, isOpen && !isSet(tablesUrl), "is required when a table key is set"],
    [repository, isSet(token) && !isSet(repository), `is required when ${token.name} is set`],
    [version, isSet(secret) && !isSet(version), `is required with ${secret.name}`],
    [secret, isSet(version) && !isSet(secret), `is required with ${version.name}`],
    [version, isSet(secret) && isSame, `must differ from ${current.name}`, current],
    [
      grace,
      isSet(grace) && values.shutdownGraceSeconds < least,
      `must be at least ${deadline.name} + ${graceAfterDeadline}`,
      deadline
    ]
  ] as const
}

/** An empty variable counts as absent. Reads the files that hold secrets. */
export const readSettings = (environment: Environment): SettingsRead => {
  const problems = new Map<string, string>()
  const read = (node: object): unknown =>
    isSetting(node)
      ? Either.getOrElse(parseSetting(environment, node), (problem) => {
          problems.set(node.name, problem)
          return node.absent
        })
      : Record.map(node as Readonly<Record<string, object>>, read)
  // The table has a setting for each value.
  const values = read(settingsTable) as SettingValues
  const isSet = (entry: SettingEntry) => sourceOf(environment, entry)._tag !== "Absent"
  for (const [{ name }, isWrong, problem, other] of rulesOf(isSet, values))
    if (isWrong && !problems.has(name) && !problems.has(other?.name ?? "")) problems.set(name, problem)
  for (const name of proxyVariables)
    if (environment[name])
      Either.mapLeft(proxyAddress(environment[name]), (problem) => problems.set(name, problem))
  return {
    settings: toSettings(values),
    problems: [...settingEntries.map(({ name }) => name), ...proxyVariables].flatMap((name) => {
      const problem = problems.get(name)
      return problem === undefined ? [] : [{ name, problem }]
    })
  }
}

/** Of clients and the examples, which may have the same environment (specification.md, "Testing environments"). */
const clientVariables = /^MUSIC_(?:TEST_APP_SECRET|URL|PATIENCE|DAEMON_\w+)$/

/** Variables that look like settings and have no effect, by name. Their values are not read: one may be a secret. */
export const unknownVariables = (environment: Environment): ReadonlyArray<string> => {
  const known = settingEntries.flatMap(({ name, secret }) => [
    name,
    ...(secret ? [fileVariableOf(name)] : [])
  ])
  return Object.keys(environment)
    .filter((name) => name.startsWith("MUSIC_") && environment[name])
    .filter((name) => !known.includes(name) && !clientVariables.test(name))
    .sort()
}

/** The environment of this process, for commands that show settings or read some of them. */
export const processEnvironment: Effect.Effect<Environment> = Effect.sync(() => process.env)

/** Settings of this process; it fails with all problems at once. */
export const SettingsFromEnvironment: Layer.Layer<Settings, SettingsInvalid> = Layer.effect(
  Settings,
  Effect.suspend(() => {
    const { problems, settings } = readSettings(process.env)
    return problems.length === 0 ? Effect.succeed(settings) : Effect.fail(new SettingsInvalid({ problems }))
  })
)
