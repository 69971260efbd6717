/** Runs the command line in this process, with a given environment, and records its output. */
import * as Effect from "effect/Effect"
import { runCommand } from "../../src/cli/Program.ts"
import { Screen, type ScreenService } from "../../src/cli/Screen.ts"
import { CliEnvironment } from "../../src/cli/Environment.ts"
import type { Environment } from "../../src/layers/settings/Settings.ts"
import { type SimulatedUpstreams, upstreamEnvironment } from "../../sandbox/SimulatedUpstreams.ts"

export interface Run {
  readonly exit: number
  readonly out: string
  readonly err: string
  /** The lines of progress. */
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
      // `--env-file` adds to it.
      Effect.provideService(CliEnvironment, { ...environment })
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

/** An environment that configures every upstream of a world. */
export const wholeEnvironment = (
  world: SimulatedUpstreams,
  place: { readonly databasePath: string; readonly port: number }
): Readonly<Record<string, string>> => ({
  MUSIC_BIND: `127.0.0.1:${place.port}`,
  MUSIC_TRUSTED_PROXIES: "127.0.0.1",
  MUSIC_DATABASE_PATH: place.databasePath,
  ...upstreamEnvironment(world)
})
