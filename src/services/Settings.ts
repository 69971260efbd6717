/** Decoded settings. `layers/settings` reads them from the environment; the table has their names, units and defaults. */
import * as Context from "effect/Context"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import { clientTables, type TableName } from "../schema/Telemetry.ts"
import type { SettingValues } from "./settings/SettingsTable.ts"

/** Seconds by which the shutdown grace exceeds the deadline of a request at least. */
export const graceAfterDeadline = 2

/** The current secret and, while rotating, the previous one, by key version. */
const webhookSecretsOf = (iam: SettingValues["iam"]): ReadonlyMap<number, Redacted.Redacted> =>
  new Map([
    [iam.webhookKeyVersion, iam.webhookSecret],
    ...Option.toArray(Option.all([iam.previousWebhookKeyVersion, iam.previousWebhookSecret]))
  ])

/** Of the tables that are open. */
const tableKeysOf = (keys: SettingValues["tableKeys"]): ReadonlyMap<TableName, Redacted.Redacted> =>
  new Map(
    clientTables.flatMap((table) =>
      Option.toArray(Option.map(keys[table], (key): [TableName, Redacted.Redacted] => [table, key]))
    )
  )

/** The settings as the backend uses them: those that belong together are one value. */
export const toSettings = ({
  tableKeys,
  tablesUrl,
  trackerRepository,
  trackerToken,
  trackerUrl,
  ...values
}: SettingValues) => ({
  ...values,
  iam: { ...values.iam, webhookSecrets: webhookSecretsOf(values.iam) },
  tables: Option.map(tablesUrl, (url) => ({ url, keys: tableKeysOf(tableKeys) })),
  /** The repository that a report's pull request must belong to. Present also without a token. */
  repository: Option.map(trackerRepository, ({ owner, repository }) => ({
    owner,
    name: repository,
    url: trackerUrl
  })),
  tracker: Option.zipWith(trackerToken, trackerRepository, (token, place) => ({
    token,
    ...place,
    url: trackerUrl
  })),
  shutdownGraceSeconds: Math.max(
    values.shutdownGraceSeconds,
    values.requestDeadlineSeconds + graceAfterDeadline
  )
})

export type SettingsValues = Readonly<ReturnType<typeof toSettings>>

export class Settings extends Context.Tag("music/Settings")<Settings, SettingsValues>() {}
