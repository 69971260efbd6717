/** Which limit binds first as users grow. The tables and the chart of docs/limits.md come from it. */
import { production } from "../../src/layers/delivery/Worker.ts"
import { ceilingOf } from "../../src/layers/iam/Window.ts"

/** What one user does in a day, on average. */
export const behaviour = {
  logins: 0.2,
  /** The daemon runs for four hours, and an access token lasts for half an hour. */
  refreshes: 8,
  me: 20,
  tings: 2,
  /** Each of ten events. */
  telemetryBatches: 60,
  reports: 0.01
} as const

/** Calls in the busiest hour, in relation to the mean hour. */
export const peakFactor = 3

export const eventsPerBatch = 10

/** Milliseconds of one core for one call, from docs/performance.md: they change with the machine and the version. */
export const measured = {
  /** Telemetry with the shipping of its records; login, refresh and ting by their operations in relation to `me`. */
  cpuMillis: { login: 1.8, refresh: 0.9, me: 0.52, ting: 1.2, telemetry: 1.2, report: 0.3 },
  /** Part of one core that may be busy in the busiest hour, so that an answer waits for few others. */
  usableCore: 0.7,
  /** Commits of telemetry and reports in a second. */
  writesPerSecond: 2_000,
  /** Seconds of one request to Ting. */
  tingSeconds: 0.3,
  /** Seconds of one request of 200 records to the table service. */
  tableSeconds: 0.1,
  /** Bytes that a stored report counts. */
  reportBytes: 2_500
} as const

/** Settings and fixed bounds, with their defaults. */
export const usual = {
  /** `MUSIC_IAM_CALLS_PER_MINUTE`. */
  iamCallsPerMinute: 110,
  /** Places of requests that wait for Ting. */
  tingPlaces: 200,
  /** Records of one request to the table service; one request at a time for each process. */
  tableRecords: 200,
  /** Issues that are filed in an hour. */
  issuesPerHour: production.hourlyWrites,
  /** `MUSIC_REPORTS_MEGABYTES`. */
  reportsMegabytes: 1_000,
  /** `MUSIC_RETENTION_REPORTS_DAYS`; for ever is counted as a year. */
  reportsDays: 365,
  instances: 1
}
export type Deployment = typeof usual

/** Seconds of a call to IAM: its place is free again a minute after the answer. */
export const iamSeconds = 0.2

const dayInSeconds = 86_400

/** Uses of one user in a second of the busiest hour. */
export const inPeak = (perDay: number): number => (perDay * peakFactor) / dayInSeconds

/** Calls that IAM's budget admits in a second for a share of it. */
export const iamPerSecond = (callsPerMinute: number, share: "essential" | "known"): number =>
  ceilingOf(share, callsPerMinute) / (60 + iamSeconds)

const { logins, me, refreshes, reports, telemetryBatches, tings } = behaviour
const { cpuMillis } = measured

export const introspectionsPerDay = logins + refreshes + me + tings + reports
export const exchangesPerDay = logins + refreshes
export const proofsPerDay = logins + tings
export const eventsPerDay = telemetryBatches * eventsPerBatch
export const writesPerDay = telemetryBatches + reports + logins
export const cpuMillisPerDay =
  logins * cpuMillis.login +
  refreshes * cpuMillis.refresh +
  me * cpuMillis.me +
  tings * cpuMillis.ting +
  telemetryBatches * cpuMillis.telemetry +
  reports * cpuMillis.report

export interface Limit {
  readonly name: string
  readonly action: string
  /** Users at which the limit binds. */
  readonly users: (deployment: Deployment) => number
}

export const limits: ReadonlyArray<Limit> = [
  {
    name: "IAM, introspection",
    action:
      "Ask IAM for a larger allowance and raise `MUSIC_IAM_CALLS_PER_MINUTE`; until then set `MUSIC_INTROSPECTION_CACHE_SECONDS`, at most 30",
    users: ({ iamCallsPerMinute }) => iamPerSecond(iamCallsPerMinute, "known") / inPeak(introspectionsPerDay)
  },
  {
    name: "IAM, tokens",
    action: "The same allowance and setting",
    users: ({ iamCallsPerMinute }) => iamPerSecond(iamCallsPerMinute, "essential") / inPeak(exchangesPerDay)
  },
  {
    name: "IAM, proofs",
    action: "The same allowance and setting",
    users: ({ iamCallsPerMinute }) => iamPerSecond(iamCallsPerMinute, "known") / inPeak(proofsPerDay)
  },
  {
    name: "table service",
    action: "Add an instance on PostgreSQL: each sends one request at a time",
    users: ({ instances, tableRecords }) =>
      ((tableRecords / measured.tableSeconds) * instances) / inPeak(eventsPerDay)
  },
  {
    name: "one process",
    action: "Add an instance: `MUSIC_DATABASE_URL`, and divide `MUSIC_IAM_CALLS_PER_MINUTE` among them",
    users: ({ instances }) => (1_000 * measured.usableCore * instances) / inPeak(cpuMillisPerDay)
  },
  {
    name: "stored reports",
    action: "Raise `MUSIC_REPORTS_MEGABYTES`, or set `MUSIC_RETENTION_REPORTS_DAYS`",
    users: ({ reportsDays, reportsMegabytes }) =>
      (reportsMegabytes * 1e6) / (measured.reportBytes * reportsDays) / reports
  },
  {
    name: "database",
    action: "A faster disk; then PostgreSQL (`MUSIC_DATABASE_URL`) on a machine of its own",
    users: () => measured.writesPerSecond / inPeak(writesPerDay)
  },
  {
    name: "tracker",
    action: "Reports wait and are filed later, none is lost; a lasting excess needs another way to file them",
    users: ({ issuesPerHour }) => issuesPerHour / 3_600 / inPeak(reports)
  },
  {
    name: "Ting",
    action: "Add an instance",
    users: ({ instances, tingPlaces }) => ((tingPlaces / measured.tingSeconds) * instances) / inPeak(tings)
  }
]

/** What an operator does as users grow: each step moves the limit that binds. */
export const steps: ReadonlyArray<{ readonly name: string; readonly deployment: Deployment }> = [
  { name: "as installed", deployment: usual },
  {
    name: "an allowance of 10,000 calls a minute at IAM",
    deployment: { ...usual, iamCallsPerMinute: 10_000 }
  },
  {
    name: "then three instances, and reports kept for 30 days",
    deployment: { ...usual, iamCallsPerMinute: 10_000, instances: 3, reportsDays: 30 }
  }
]

/** The limit with the fewest users. */
export const firstToBind = (
  deployment: Deployment
): { readonly limit: Limit; readonly users: number } | undefined =>
  limits
    .map((limit) => ({ limit, users: limit.users(deployment) }))
    .sort((one, other) => one.users - other.users)[0]
