/** Settings for tests: every default of docs/api.md, and addresses that refuse connections until a test names its own. */
import * as LogLevel from "effect/LogLevel"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type { SettingsValues } from "../../src/services/Settings.ts"

/** The secret of identity-service.md 10.2, vector O1. */
export const testApplicationSecret = "ask_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0U1v"

/** The signing secret of identity-service.md 11.7, vector W1, key version 1. */
export const testWebhookSecret = "example-webhook-secret-0123456789abcdef"

/** What a test changes. Groups are merged field by field, everything else is replaced. */
export interface SettingsOverrides
  extends Partial<Omit<SettingsValues, "iam" | "ting" | "telemetry" | "retention">> {
  readonly iam?: Partial<SettingsValues["iam"]>
  readonly ting?: Partial<SettingsValues["ting"]>
  readonly telemetry?: Partial<SettingsValues["telemetry"]>
  readonly retention?: Partial<SettingsValues["retention"]>
}

/** `testSettings({ iam: { url: iam.url }, ting: { url: ting.url } })` */
export const testSettings = (overrides: SettingsOverrides = {}): SettingsValues => ({
  bind: { host: "127.0.0.1", port: 0 },
  databasePath: ":memory:",
  databaseUrl: Option.none(),
  organisation: "music",
  tables: Option.none(),
  repository: Option.map(overrides.tracker ?? Option.none(), ({ owner, repository, url }) => ({
    owner,
    name: repository,
    url
  })),
  tracker: Option.none(),
  reportsBytes: 1_000_000_000,
  webOrigins: [],
  minCli: "0.1.0",
  rateLimit: false,
  trustedProxies: [],
  requestDeadlineSeconds: 25,
  shutdownGraceSeconds: 30,
  adminBind: Option.none(),
  openTelemetry: {
    serviceName: "music-backend",
    resource: new Map(),
    traces: Option.none(),
    metrics: Option.none()
  },
  logLevel: LogLevel.None,
  logFormat: "json",
  ...overrides,
  iam: {
    // Port 1 refuses: a test that forgot to start a simulator sees "not executed" at once.
    url: "http://127.0.0.1:1",
    applicationId: "music",
    applicationSecret: Redacted.make(testApplicationSecret),
    timeoutSeconds: 8,
    webhookSecrets: new Map([[1, Redacted.make(testWebhookSecret)]]),
    introspectionCacheSeconds: 0,
    callsPerMinute: 110,
    ...overrides.iam
  },
  ting: {
    url: "http://127.0.0.1:1",
    timeoutSeconds: 15,
    types: ["music.trigger.fired", "music.trigger.expired"],
    ...overrides.ting
  },
  telemetry: { enabled: true, spoolBytes: 500 * 1024 * 1024, spoolHours: 24, ...overrides.telemetry },
  retention: {
    reportsDays: 0,
    webhooksDays: 46,
    deliveriesDays: 30,
    recipientsDays: 90,
    ...overrides.retention
  }
})
