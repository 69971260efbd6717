/** Decoded settings. `layers/settings` reads them from the environment; the table has their names, units and defaults. */
import * as Context from "effect/Context"
import * as Option from "effect/Option"
import * as Struct from "effect/Struct"
import type { SettingValues } from "./settings/SettingsTable.ts"

/** Seconds by which the shutdown grace exceeds the deadline of a request at least. */
export const graceAfterDeadline = 2

/** The settings as the backend uses them: those that belong together are one value. */
export const toSettings = ({
  iam,
  tableKeys,
  tablesUrl,
  trackerRepository,
  trackerToken,
  trackerUrl: url,
  ...values
}: SettingValues) => ({
  ...values,
  iam: {
    ...iam,
    /** The current secret and, while rotating, the previous one, by key version. */
    webhookSecrets: new Map([
      [iam.webhookKeyVersion, iam.webhookSecret],
      ...Option.toArray(Option.all([iam.previousWebhookKeyVersion, iam.previousWebhookSecret]))
    ])
  },
  /** The keys are those of open tables. */
  tables: Option.map(tablesUrl, (tables) => ({
    url: tables,
    keys: new Map(
      Struct.entries(tableKeys).flatMap(([table, key]) =>
        Option.toArray(Option.map(key, (it) => [table, it] as const))
      )
    )
  })),
  /** The repository that a report's pull request must belong to. Present also without a token. */
  repository: Option.map(trackerRepository, ({ owner, repository: name }) => ({ owner, name, url })),
  tracker: Option.zipWith(trackerToken, trackerRepository, (token, place) => ({ token, ...place, url })),
  shutdownGraceSeconds: Math.max(
    values.shutdownGraceSeconds,
    values.requestDeadlineSeconds + graceAfterDeadline
  )
})

export type SettingsValues = Readonly<ReturnType<typeof toSettings>>

export class Settings extends Context.Tag("music/Settings")<Settings, SettingsValues>() {}
