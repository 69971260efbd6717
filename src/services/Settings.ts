/** Decoded settings. `layers/settings` reads them from the environment; the table has their names, units and defaults. */
import * as Context from "effect/Context"
import * as Option from "effect/Option"
import * as Struct from "effect/Struct"
import type { SettingValues } from "./settings/SettingsTable.ts"

/** The settings as the backend uses them: those that belong together are one value. */
export const toSettings = ({ iam, tables, tracker, ...values }: SettingValues) => ({
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
  tables: Option.map(tables.url, (url) => ({
    url,
    keys: new Map(
      Struct.entries(tables.keys).flatMap(([table, key]) =>
        Option.toArray(Option.map(key, (it) => [table, it] as const))
      )
    )
  })),
  /** The repository that a report's pull request must belong to. Present also without a token. */
  repository: Option.map(tracker.repository, (place) => ({ ...place, url: tracker.url })),
  tracker: Option.zipWith(tracker.token, tracker.repository, (token, place) => ({
    ...place,
    token,
    url: tracker.url
  }))
})

export type SettingsValues = Readonly<ReturnType<typeof toSettings>>

export class Settings extends Context.Tag("music/Settings")<Settings, SettingsValues>() {}
