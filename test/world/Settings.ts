/** Settings for tests: the defaults, with addresses that refuse connections until a test names its own. */
import { LogLevel, Option, Redacted } from "effect"
import { readSettings } from "../../src/layers/settings/Settings.ts"
import type { SettingsValues } from "../../src/services/Settings.ts"

/** The secret of identity-service.md 10.2, vector O1. */
export const testApplicationSecret = "ask_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0U1v"

/** The signing secret of identity-service.md 11.7, vector W1, key version 1. */
export const testWebhookSecret = "example-webhook-secret-0123456789abcdef"

/** Settings of a tracker, for tests that simulate it or deliver nothing to it. */
export const testTracker = {
  token: Redacted.make("tracker-token"),
  owner: "harbor",
  repository: "music",
  url: "https://api.github.com"
}

/** Settings that a test changes. Groups are merged field by field, other values are replaced. */
export interface SettingsOverrides
  extends Partial<Omit<SettingsValues, "iam" | "ting" | "telemetry" | "retention">> {
  readonly iam?: Partial<SettingsValues["iam"]>
  readonly ting?: Partial<SettingsValues["ting"]>
  readonly telemetry?: Partial<SettingsValues["telemetry"]>
  readonly retention?: Partial<SettingsValues["retention"]>
}

/** Port 1 refuses connections: a test that did not start a simulator sees "not executed" at once. */
export const testEnvironment = {
  MUSIC_IAM_URL: "http://127.0.0.1:1",
  MUSIC_TING_URL: "http://127.0.0.1:1",
  MUSIC_IAM_APP_SECRET: testApplicationSecret,
  MUSIC_IAM_WEBHOOK_SECRET: testWebhookSecret
}

const defaults: SettingsValues = {
  ...readSettings(testEnvironment).settings,
  bind: { host: "127.0.0.1", port: 0 },
  databasePath: ":memory:",
  rateLimit: false,
  logLevel: LogLevel.None
}

/** `testSettings({ iam: { url: iam.url }, ting: { url: ting.url } })` */
export const testSettings = (overrides: SettingsOverrides = {}): SettingsValues => {
  const repository = Option.map(overrides.tracker ?? Option.none(), ({ token: _, ...place }) => place)
  return {
    ...defaults,
    repository,
    ...overrides,
    iam: { ...defaults.iam, ...overrides.iam },
    ting: { ...defaults.ting, ...overrides.ting },
    telemetry: { ...defaults.telemetry, ...overrides.telemetry },
    retention: { ...defaults.retention, ...overrides.retention }
  }
}
