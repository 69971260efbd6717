/** Decoded settings. `layers/settings` reads them from the environment; docs/api.md lists their names and defaults. */
import * as Context from "effect/Context"
import type * as LogLevel from "effect/LogLevel"
import type * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type { TableName } from "../schema/Telemetry.ts"

export interface SettingsValues {
  readonly bind: { readonly host: string; readonly port: number }
  readonly databasePath: string
  /** When present, Postgres is used instead of the file. */
  readonly databaseUrl: Option.Option<Redacted.Redacted>
  /** Connections of this process to Postgres, besides the one that listens. */
  readonly databaseConnections: number
  readonly iam: {
    readonly url: string
    readonly applicationId: string
    readonly applicationSecret: Redacted.Redacted
    readonly timeoutSeconds: number
    /** Signing secrets by key version: the current one and, while rotating, the previous one. */
    readonly webhookSecrets: ReadonlyMap<number, Redacted.Redacted>
    readonly introspectionCacheSeconds: number
    /** Budget of this process for each plane and path of IAM. */
    readonly callsPerMinute: number
  }
  /** The organisation that owns the application. */
  readonly organisation: string
  readonly ting: {
    readonly url: string
    readonly timeoutSeconds: number
    readonly types: ReadonlyArray<string>
  }
  readonly tables: Option.Option<{
    readonly url: string
    readonly keys: ReadonlyMap<TableName, Redacted.Redacted>
  }>
  readonly telemetry: {
    readonly enabled: boolean
    readonly spoolBytes: number
    readonly spoolHours: number
  }
  /** The repository that a report's pull request must belong to. Present also without a token. */
  readonly repository: Option.Option<{ readonly owner: string; readonly name: string; readonly url: string }>
  readonly tracker: Option.Option<{
    readonly token: Redacted.Redacted
    readonly owner: string
    readonly repository: string
    readonly url: string
    /** Seconds after a send with unknown outcome at which the tracker is searched for the issue. */
    readonly reconcileSeconds: ReadonlyArray<number>
  }>
  /** Bound of all stored reports. */
  readonly reportsBytes: number
  /** Whether new reports without a verified reporter are stored. */
  readonly anonymousReports: boolean
  readonly webOrigins: ReadonlyArray<string>
  readonly minCli: string
  readonly rateLimit: boolean
  /** Addresses or CIDRs whose `X-Forwarded-For` is trusted. */
  readonly trustedProxies: ReadonlyArray<string>
  readonly requestDeadlineSeconds: number
  readonly shutdownGraceSeconds: number
  /** From the standard variables. Addresses hold credentials. */
  readonly outboundProxy: {
    readonly http: Option.Option<Redacted.Redacted>
    readonly https: Option.Option<Redacted.Redacted>
    /** Hosts and networks that are reached without a proxy, beside this machine. */
    readonly except: ReadonlyArray<string>
  }
  readonly adminBind: Option.Option<{ readonly host: string; readonly port: number }>
  /** In days; 0 keeps for ever. */
  readonly retention: {
    readonly reportsDays: number
    /** Of reports without a verified reporter. */
    readonly anonymousReportsDays: number
    readonly webhooksDays: number
    readonly deliveriesDays: number
    /** Of inactive registrations. */
    readonly recipientsDays: number
  }
  readonly logLevel: LogLevel.LogLevel
  readonly logFormat: "json" | "pretty"
  /** Access lines and summed refusals hold the client's address. */
  readonly logClientAddress: boolean
}

export class Settings extends Context.Tag("music/Settings")<Settings, SettingsValues>() {}
