/** The command line in this process: what it prints is kept, and its environment is given. */
import * as Effect from "effect/Effect"
import { runCommand } from "../../src/cli/Program.ts"
import { Screen, type ScreenService } from "../../src/cli/Screen.ts"
import { CliEnvironment } from "../../src/cli/Environment.ts"
import type { Environment } from "../../src/layers/settings/Settings.ts"
import type { World } from "../../sandbox/World.ts"

export interface Run {
  readonly exit: number
  readonly out: string
  readonly err: string
  /** Everything that was shown as progress. */
  readonly progress: ReadonlyArray<string>
  /** Standard output as JSON. */
  readonly json: unknown
}

export interface Terminal {
  readonly colours?: boolean
  readonly columns?: number
}

/** Runs `music-backend` with these arguments. */
export const run = (
  args: ReadonlyArray<string>,
  environment: Environment,
  { colours = false, columns }: Terminal = {}
): Effect.Effect<Run> =>
  Effect.gen(function* () {
    const out: Array<string> = []
    const err: Array<string> = []
    const progress: Array<string> = []
    const kept = (lines: Array<string>) => (text: string) =>
      Effect.sync(() => {
        lines.push(text)
      })
    const screen: ScreenService = {
      colours,
      columns,
      watched: true,
      out: kept(out),
      err: kept(err),
      progress: kept(progress)
    }
    const exit = yield* runCommand(args).pipe(
      Effect.provideService(Screen, screen),
      Effect.provideService(CliEnvironment, environment)
    )
    const text = out.join("\n")
    return {
      exit,
      out: text,
      err: err.join("\n"),
      progress,
      get json(): unknown {
        return JSON.parse(text)
      }
    }
  })

/** A whole environment for a world: everything is configured. */
export const wholeEnvironment = (
  world: World,
  place: { readonly databasePath: string; readonly port: number }
): Readonly<Record<string, string>> => ({
  MUSIC_BIND: `127.0.0.1:${place.port}`,
  MUSIC_TRUSTED_PROXIES: "127.0.0.1",
  MUSIC_DATABASE_PATH: place.databasePath,
  MUSIC_IAM_URL: world.iam.url,
  MUSIC_TING_URL: world.ting.url,
  MUSIC_IAM_APP_SECRET: world.seeded.production.musicSecret,
  MUSIC_IAM_WEBHOOK_SECRET: world.seeded.production.webhookSecret,
  MUSIC_TABLES_URL: world.tables.url,
  MUSIC_BACKEND_TABLE_KEY: world.tableKeys.get("musicbackend") ?? "",
  MUSIC_CLIDAEMON_TABLE_KEY: world.tableKeys.get("musicclidaemon") ?? "",
  MUSIC_FRONTEND_ANALYTICS_TABLE_KEY: world.tableKeys.get("musicfrontendanalytics") ?? "",
  MUSIC_FRONTEND_EVENTS_TABLE_KEY: world.tableKeys.get("musicfrontendevents") ?? "",
  MUSIC_GITHUB_TOKEN: world.trackerToken,
  MUSIC_GITHUB_REPOSITORY: "harbor/music",
  MUSIC_GITHUB_URL: world.tracker.url
})
