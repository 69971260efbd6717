/** Settings from environment variables. One bad or missing variable never hides the others. */
import { readFileSync } from "node:fs"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Record from "effect/Record"
import { errorCode } from "../../services/ErrorCode.ts"
import { proxyAddress } from "../../services/settings/Form.ts"
import { Settings, toSettings } from "../../services/Settings.ts"
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

/** The variable that names the file of a secret setting, as Docker and Kubernetes mount it. */
const fileVariableOf = (name: string): string => `${name}_FILE`

/** The text of a setting, and the path of the file that has it. An absent one is empty, and only a secret may be in a file. */
export const givenOf = (environment: Environment, { name, secret }: SettingEntry) => {
  const path = secret ? (environment[fileVariableOf(name)] ?? "") : ""
  const value = environment[name] ?? ""
  return { path, value, isSet: path !== "" || value !== "" }
}

/** The content without its final line end. The reason names neither file nor content: a secret may be in the place of the name. */
const readSecret = (path: string): Either.Either<string, string> =>
  Either.try({
    try: () => readFileSync(path, "utf8").replace(/\r?\n$/, ""),
    catch: (error) => `cannot be read (${errorCode(error)})`
  }).pipe(Either.flatMap((content) => (content === "" ? Either.left("is empty") : Either.right(content))))

/** The value, or its problem. */
const parseSetting = <A>(environment: Environment, setting: Setting<A>): Either.Either<A, string> => {
  const { isSet, path, value } = givenOf(environment, setting)
  if (!isSet) return setting.required === true ? Either.left("is required") : Either.right(setting.absent)
  if (path === "") return setting.parse(value)
  const file = fileVariableOf(setting.name)
  if (value !== "") return Either.left(`is set, and ${file} too: remove one of them`)
  return readSecret(path).pipe(
    Either.mapLeft((reason) => `the file of ${file} ${reason}`),
    Either.flatMap((content) =>
      Either.mapLeft(setting.parse(content), (problem) => `${problem}; it is in the file of ${file}`)
    )
  )
}

/** Undici reads these, and does not start with a bad one. */
export const proxyVariables = ["https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY"]

const { iam, tables, tracker, ...table } = settingsTable

/** Where the first one is set, the second one must be. */
const companions: ReadonlyArray<readonly [given: SettingEntry, needed: SettingEntry]> = [
  ...Object.values(tables.keys).map((key) => [key, tables.url] as const),
  [tracker.token, tracker.repository],
  [iam.previousWebhookSecret, iam.previousWebhookKeyVersion],
  [iam.previousWebhookKeyVersion, iam.previousWebhookSecret]
]

/** Pairs of values: whether they do not fit together, the wrong one, and its relation to the other one. */
const conflictsOf = ({ requestDeadlineSeconds, shutdownGraceSeconds, ...values }: SettingValues) => {
  const isSame = Option.contains(values.iam.previousWebhookKeyVersion, values.iam.webhookKeyVersion)
  const isShort = shutdownGraceSeconds < requestDeadlineSeconds + 2
  return [
    [isSame, iam.previousWebhookKeyVersion, "must differ from", iam.webhookKeyVersion],
    [isShort, table.shutdownGraceSeconds, "must be at least 2 more than", table.requestDeadlineSeconds]
  ] as const
}

/**
 * The settings, and all problems in the order of the table, one of each setting. A setting that a problem names has its default, or a
 * placeholder, which nothing may use. An empty variable counts as absent. Reads the files that hold secrets.
 */
export const readSettings = (environment: Environment) => {
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
  const isSet = (entry: SettingEntry) => givenOf(environment, entry).isSet
  for (const [given, needed] of companions)
    if (isSet(given) && !isSet(needed)) problems.set(needed.name, `is required with ${given.name}`)
  // The problem of a setting alone comes first.
  for (const [isWrong, { name }, relation, other] of conflictsOf(values))
    if (isWrong && !problems.has(name) && !problems.has(other.name))
      problems.set(name, `${relation} ${other.name}`)
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
  const known = settingEntries.flatMap(({ name, secret }) => (secret ? [name, fileVariableOf(name)] : [name]))
  return Object.keys(environment)
    .filter((name) => name.startsWith("MUSIC_") && environment[name])
    .filter((name) => !known.includes(name) && !clientVariables.test(name))
    .sort()
}

/** The environment of this process, for commands that show settings or read some of them. */
export const processEnvironment: Environment = process.env

/** Settings of this process; it fails with all problems at once. */
export const SettingsFromEnvironment: Layer.Layer<Settings, SettingsInvalid> = Layer.effect(
  Settings,
  Effect.suspend(() => {
    const { problems, settings } = readSettings(processEnvironment)
    return problems.length === 0 ? Effect.succeed(settings) : Effect.fail(new SettingsInvalid({ problems }))
  })
)
