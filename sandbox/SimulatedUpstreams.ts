/** The four simulated upstreams, seeded and connected, for the sandbox and the end-to-end tests. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { readSettings } from "../src/layers/settings/Settings.ts"
import { tableKeyName } from "../src/services/settings/SettingsTable.ts"
import { clientTables, type TableName } from "../src/schema/Telemetry.ts"
import type { SettingsValues } from "../src/services/Settings.ts"
import type { Plane } from "./console/Protocol.ts"
import { type IamSimulator, production, type SeededIam, seedIam, startIam } from "./upstreams/Iam.ts"
import type { Now } from "./upstreams/Simulator.ts"
import { startTables, type TablesSimulator } from "./upstreams/Tables.ts"
import { startTing, type TingSimulator } from "./upstreams/Ting.ts"
import { startTracker, type TrackerSimulator } from "./upstreams/Tracker.ts"

/** The types that are registered in every plane. */
export const tingTypes = ["music.trigger.fired", "music.trigger.expired"]
/** `owner/name` of the repository that reports are filed in. */
export const repositoryName = "harbor/music"
/** Has the form of a fine-grained token, so that secret scanners find a leak. */
const trackerToken = "github_pat_SANDBOXsandboxSANDBOX_sandboxSANDBOXsandboxSANDBOX0123456789"

export interface SimulatedUpstreams {
  readonly iam: IamSimulator
  readonly ting: TingSimulator
  readonly tables: TablesSimulator
  readonly tracker: TrackerSimulator
  readonly seeded: SeededIam
  readonly tableKeys: ReadonlyMap<TableName, string>
  readonly trackerToken: string
  /** Every credential of every simulator. None may appear in a log or in the database. */
  readonly minted: () => ReadonlyArray<string>
}

/** The planes of the console. */
export const planesOf = ({ iam, seeded }: SimulatedUpstreams): ReadonlyArray<Plane> => {
  const { environmentId, musicSecret } = seeded.environment
  const organizationsOf = (plane: string) => [...iam.controls.plane(plane).organizations.keys()].sort()
  return [
    { id: production, name: "production", key: null, organizations: organizationsOf(production) },
    { id: environmentId, name: "music e2e", key: musicSecret, organizations: organizationsOf(environmentId) }
  ]
}

/** A short-lived token of production; for `si:deejay` in acme by default. */
export const mintSlt = ({ iam }: SimulatedUpstreams, actor = "si:deejay"): string =>
  iam.controls.mintSlt(production, { appId: "music", actor })

/** Starts and seeds all four, on ports from `first` or on any free ones. They stop with the scope. */
export const startUpstreams = (
  now: Now,
  first = 0
): Effect.Effect<SimulatedUpstreams, never, Scope.Scope> => {
  const at = (offset: number) => ({ now, port: first === 0 ? 0 : first + offset })
  const started = <A extends { readonly close: () => Promise<void> }>(start: () => Promise<A>) =>
    Effect.acquireRelease(Effect.promise(start), (simulator) => Effect.promise(() => simulator.close()))
  return Effect.gen(function* () {
    const iam = yield* started(() => startIam({ ...at(0), rateLimit: Number.POSITIVE_INFINITY }))
    const seeded = seedIam(iam.controls)
    const ting = yield* started(() =>
      startTing({ ...at(1), iamUrl: iam.url, appSecret: seeded.production.tingSecret })
    )
    for (const plane of [production, seeded.environment.environmentId]) {
      for (const type of tingTypes) ting.registerType(plane, type)
    }
    const tables = yield* started(() => startTables(at(2)))
    const tableKeys = new Map<TableName, string>(clientTables.map((name) => [name, tables.createTable(name)]))
    const tracker = yield* started(() =>
      startTracker({
        ...at(3),
        repositories: [repositoryName],
        tokens: [{ token: trackerToken, login: "harbor-bot", rights: "write" }]
      })
    )
    return {
      iam,
      ting,
      tables,
      tracker,
      seeded,
      tableKeys,
      trackerToken,
      minted: () => [...new Set([...iam.minted, ...tables.minted, trackerToken])]
    }
  })
}

/** The environment variables that name these upstreams and hold their credentials. */
export const upstreamEnvironment = (upstreams: SimulatedUpstreams): Readonly<Record<string, string>> => ({
  MUSIC_IAM_URL: upstreams.iam.url,
  MUSIC_TING_URL: upstreams.ting.url,
  MUSIC_IAM_APP_SECRET: upstreams.seeded.production.musicSecret,
  MUSIC_IAM_WEBHOOK_SECRET: upstreams.seeded.production.webhookSecret,
  MUSIC_IAM_WEBHOOK_KEY_VERSION: String(upstreams.seeded.production.webhookKeyVersion),
  MUSIC_TABLES_URL: upstreams.tables.url,
  ...Object.fromEntries([...upstreams.tableKeys].map(([table, key]) => [tableKeyName(table), key])),
  MUSIC_GITHUB_TOKEN: upstreams.trackerToken,
  MUSIC_GITHUB_REPOSITORY: repositoryName,
  MUSIC_GITHUB_URL: upstreams.tracker.url
})

/** Settings of a server that uses these upstreams. Everything else has its default. */
export const settingsFor = (
  upstreams: SimulatedUpstreams,
  base: Pick<SettingsValues, "bind" | "databasePath" | "logLevel">
): SettingsValues => ({
  ...readSettings({ ...upstreamEnvironment(upstreams), MUSIC_WEB_ORIGINS: "http://localhost:5173" }).settings,
  ...base
})

/** URLs that show what arrived upstream. */
export const viewUrls = (upstreams: SimulatedUpstreams) => ({
  inbox: `${upstreams.ting.url}/_sandbox/inbox?plane=production&org=acme&for=si:deejay`,
  issues: `${upstreams.tracker.url}/repos/${repositoryName}/issues?state=all`,
  rows: (table: TableName) => `${upstreams.tables.url}/_sandbox/tables/${table}/rows`
})
