/** The four simulated upstreams, seeded and wired to each other: what the sandbox and the end-to-end tests run against. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { readSettings } from "../src/layers/settings/Settings.ts"
import { tableKeyNames } from "../src/layers/settings/SettingsTable.ts"
import { backendTable, clientTables, type TableName } from "../src/schema/Telemetry.ts"
import type { SettingsValues } from "../src/services/Settings.ts"
import { type IamSimulator, production, type SeededWorld, seedWorld, startIam } from "./upstreams/Iam.ts"
import type { Now } from "./upstreams/Simulator.ts"
import { startTables, type TablesSimulator } from "./upstreams/Tables.ts"
import { startTing, type TingSimulator } from "./upstreams/Ting.ts"
import { startTracker, type TrackerSimulator } from "./upstreams/Tracker.ts"

const tingTypes = ["music.trigger.fired", "music.trigger.expired"]
const allTables: ReadonlyArray<TableName> = [...clientTables, backendTable]
const repository = { owner: "harbor", repository: "music" }
/** Shaped like a fine-grained token, so that a leak of it would be seen by whoever looks for one. */
const trackerToken = "github_pat_SANDBOXsandboxSANDBOX_sandboxSANDBOXsandboxSANDBOX0123456789"

export interface World {
  readonly iam: IamSimulator
  readonly ting: TingSimulator
  readonly tables: TablesSimulator
  readonly tracker: TrackerSimulator
  readonly seeded: SeededWorld
  readonly tableKeys: ReadonlyMap<TableName, string>
  readonly trackerToken: string
  /** Every credential of every simulator: none may stand in a log or in the database. */
  readonly minted: () => ReadonlyArray<string>
}

/** A short-lived token of production, for `si:deejay` in acme unless told. */
export const mintSlt = ({ iam }: World, actor = "si:deejay"): string =>
  iam.world.mintSlt(production, { appId: "music", actor })

/** Starts and seeds all four; they stop with the scope. */
export const makeWorld = (now: Now): Effect.Effect<World, never, Scope.Scope> => {
  const started = <A extends { readonly close: () => Promise<void> }>(start: () => Promise<A>) =>
    Effect.acquireRelease(Effect.promise(start), (simulator) => Effect.promise(() => simulator.close()))
  return Effect.gen(function* () {
    const iam = yield* started(() => startIam({ now, rateLimit: Number.POSITIVE_INFINITY }))
    const seeded = seedWorld(iam.world)
    const ting = yield* started(() =>
      startTing({ now, iamUrl: iam.url, appSecret: seeded.production.tingSecret })
    )
    for (const plane of [production, seeded.environment.environmentId]) {
      for (const type of tingTypes) ting.registerType(plane, "music", type)
    }
    const tables = yield* started(() => startTables({ now }))
    const tableKeys = new Map<TableName, string>(allTables.map((name) => [name, tables.createTable(name)]))
    const tracker = yield* started(() =>
      startTracker({
        now,
        repositories: [`${repository.owner}/${repository.repository}`],
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
      minted: () => [
        ...new Set([...iam.minted, ...ting.minted, ...tables.minted, ...tracker.minted, trackerToken])
      ]
    }
  })
}

/** The part of a server's environment that names a world's upstreams and holds its credentials. */
export const upstreamEnvironment = (world: World): Readonly<Record<string, string>> => ({
  MUSIC_IAM_URL: world.iam.url,
  MUSIC_TING_URL: world.ting.url,
  MUSIC_IAM_APP_SECRET: world.seeded.production.musicSecret,
  MUSIC_IAM_WEBHOOK_SECRET: world.seeded.production.webhookSecret,
  MUSIC_IAM_WEBHOOK_KEY_VERSION: String(world.seeded.production.webhookKeyVersion),
  MUSIC_TABLES_URL: world.tables.url,
  ...Object.fromEntries([...world.tableKeys].map(([table, key]) => [tableKeyNames[table], key])),
  MUSIC_GITHUB_TOKEN: world.trackerToken,
  MUSIC_GITHUB_REPOSITORY: `${repository.owner}/${repository.repository}`,
  MUSIC_GITHUB_URL: world.tracker.url
})

/** Settings of a server that uses a world's upstreams; everything else has its default. */
export const settingsFor = (
  world: World,
  base: Pick<SettingsValues, "bind" | "databasePath" | "logLevel" | "logFormat">
): SettingsValues => ({
  ...readSettings({ ...upstreamEnvironment(world), MUSIC_WEB_ORIGINS: "http://localhost:5173" }).settings,
  ...base
})

/** Where a person, or the walk, looks at what arrived. */
export const views = (world: World) => ({
  inbox: `${world.ting.url}/_sandbox/inbox?plane=production&org=acme&for=si:deejay`,
  issues: `${world.tracker.url}/repos/${repository.owner}/${repository.repository}/issues?state=all`,
  rows: (table: TableName) => `${world.tables.url}/_sandbox/tables/${table}/rows`
})
