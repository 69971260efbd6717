/** Runs the command line in this process, with a given environment, and records its output. */
import { createServer } from "node:net"
import * as Effect from "effect/Effect"
import { runCommand } from "../../src/cli/Program.ts"
import { Host } from "../../src/cli/Host.ts"
import type { Environment } from "../../src/layers/settings/Settings.ts"
import { type SimulatedUpstreams, upstreamEnvironment } from "../../sandbox/SimulatedUpstreams.ts"
import type { Kind } from "../layers/store/Stores.ts"
import { listening } from "../world/Egress.ts"

export interface Run {
  readonly exit: number
  readonly out: string
  readonly err: string
  /** Standard output as JSON. */
  readonly json: unknown
}

/** Runs `music-backend` with these arguments; `host` replaces parts of its process. */
export const run = (
  args: ReadonlyArray<string>,
  environment: Environment,
  host: Partial<Host["Type"]> = {}
): Effect.Effect<Run> =>
  Effect.gen(function* () {
    const lines: Record<"out" | "err", Array<string>> = { out: [], err: [] }
    const kept = (name: keyof typeof lines) => (text: string) =>
      Effect.sync(() => void lines[name].push(text))
    const exit = yield* runCommand(args).pipe(
      Effect.provideService(Host, {
        // `--env-file` adds to it.
        environment: { ...environment },
        out: kept("out"),
        err: kept("err"),
        ...host
      })
    )
    const out = lines.out.join("\n")
    return {
      exit,
      out,
      err: lines.err.join("\n"),
      get json(): unknown {
        return JSON.parse(out)
      }
    }
  })

/** The environment that names this database. */
export const environmentOf = ({ name }: Kind, place: string): Record<string, string> =>
  name === "SQLite" ? { MUSIC_DATABASE_PATH: place } : { MUSIC_DATABASE_URL: place }

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

/** A port of another program until the scope closes, which accepts connections and says nothing. */
export const tcpServer = () => {
  let connections = 0
  const server = createServer(() => {
    connections += 1
  })
  return Effect.map(listening(server), (port) => ({ port, connections: () => connections }))
}
