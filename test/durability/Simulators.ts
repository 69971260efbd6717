/** The simulated upstreams of a run, in this process, and the settings of instances that use them. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { makeWorld, type World } from "../../sandbox/World.ts"

export const repository = "harbor/music"
export const issuesPath = `/repos/${repository}/issues`
export const ingestPath = "/api/ingest"

export interface Simulators extends World {
  readonly close: () => Promise<void>
}

export const startSimulators = async (): Promise<Simulators> => {
  const scope = await Effect.runPromise(Scope.make())
  const world = await Effect.runPromise(
    Scope.extend(
      makeWorld(() => Date.now()),
      scope
    )
  )
  return { ...world, close: () => Effect.runPromise(Scope.close(scope, Exit.void)) }
}

const tableVariables = {
  musicbackend: "MUSIC_BACKEND_TABLE_KEY",
  musicclidaemon: "MUSIC_CLIDAEMON_TABLE_KEY",
  musicfrontendanalytics: "MUSIC_FRONTEND_ANALYTICS_TABLE_KEY",
  musicfrontendevents: "MUSIC_FRONTEND_EVENTS_TABLE_KEY"
} as const

/** The environment of an instance, without its database. */
export const environmentOf = (world: World): Readonly<Record<string, string>> => ({
  MUSIC_BIND: "127.0.0.1:0",
  MUSIC_IAM_URL: world.iam.url,
  MUSIC_TING_URL: world.ting.url,
  MUSIC_IAM_APP_SECRET: world.seeded.production.musicSecret,
  MUSIC_IAM_WEBHOOK_SECRET: world.seeded.production.webhookSecret,
  MUSIC_IAM_WEBHOOK_KEY_VERSION: String(world.seeded.production.webhookKeyVersion),
  MUSIC_TABLES_URL: world.tables.url,
  ...Object.fromEntries([...world.tableKeys].map(([table, key]) => [tableVariables[table], key])),
  MUSIC_GITHUB_TOKEN: world.trackerToken,
  MUSIC_GITHUB_REPOSITORY: repository,
  MUSIC_GITHUB_URL: world.tracker.url,
  MUSIC_RATE_LIMIT: "off",
  MUSIC_LOG_FORMAT: "json",
  MUSIC_LOG_LEVEL: process.env.DURABILITY_LOG_LEVEL ?? "info"
})
