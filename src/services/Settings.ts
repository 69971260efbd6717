/** Everything an operator can set, decoded. Read in `layers/Settings.ts`; names and defaults stand in docs/api.md. */
import * as Context from "effect/Context"
import type * as LogLevel from "effect/LogLevel"
import type * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import type { TableName } from "../schema/Telemetry.ts"

/** Where one kind of signal goes over OTLP. */
export interface OtlpTarget {
  /** The whole address, its path included. */
  readonly url: string
  readonly protocol: "http/protobuf" | "http/json"
  readonly headers: ReadonlyMap<string, Redacted.Redacted>
  readonly timeoutMillis: number
  readonly compression: "gzip" | "none"
}

/** Which traces are kept; `parentBased` asks the caller's own decision first. */
export interface TraceSampler {
  readonly parentBased: boolean
  /** 0 none to 1 all. */
  readonly ratio: number
}

export interface SettingsValues {
  readonly bind: { readonly host: string; readonly port: number }
  readonly databasePath: string
  /** Present: Postgres instead of the file. */
  readonly databaseUrl: Option.Option<Redacted.Redacted>
  readonly iam: {
    readonly url: string
    readonly applicationId: string
    readonly applicationSecret: Redacted.Redacted
    readonly timeoutSeconds: number
    /** Signing secrets by key version; the current one and, while rotating, the previous one. */
    readonly webhookSecrets: ReadonlyMap<number, Redacted.Redacted>
    readonly introspectionCacheSeconds: number
    /** What this process spends at most, for each plane and path. */
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
  /** Where pull requests that a report names belong; also without a token. */
  readonly repository: Option.Option<{ readonly owner: string; readonly name: string; readonly url: string }>
  readonly tracker: Option.Option<{
    readonly token: Redacted.Redacted
    readonly owner: string
    readonly repository: string
    readonly url: string
    /** Seconds after the send at which an unknown outcome is looked into. */
    readonly reconcileSeconds: ReadonlyArray<number>
  }>
  /** Bound of all stored reports, in bytes. */
  readonly reportsBytes: number
  readonly webOrigins: ReadonlyArray<string>
  readonly minCli: string
  readonly rateLimit: boolean
  /** Addresses or CIDRs whose `X-Forwarded-For` is believed. */
  readonly trustedProxies: ReadonlyArray<string>
  readonly requestDeadlineSeconds: number
  readonly shutdownGraceSeconds: number
  readonly adminBind: Option.Option<{ readonly host: string; readonly port: number }>
  /** From OpenTelemetry's own variables; both none without an endpoint. */
  readonly openTelemetry: {
    readonly serviceName: string
    readonly resource: ReadonlyMap<string, string>
    readonly traces: Option.Option<OtlpTarget & { readonly sampler: TraceSampler }>
    readonly metrics: Option.Option<OtlpTarget & { readonly intervalMillis: number }>
  }
  /** Days; 0 keeps for ever. */
  readonly retention: {
    readonly reportsDays: number
    readonly webhooksDays: number
    readonly deliveriesDays: number
    /** Registrations that are inactive. */
    readonly recipientsDays: number
  }
  readonly logLevel: LogLevel.LogLevel
  readonly logFormat: "json" | "pretty"
}

export class Settings extends Context.Tag("music/Settings")<Settings, SettingsValues>() {}
