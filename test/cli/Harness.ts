/** Runs the command line with a given environment, in this process or as one of its own, and records its output. */
import { spawnSync } from "node:child_process"
import { createServer } from "node:net"
import { Effect } from "effect"
import { runCommand } from "../../src/cli/Program.ts"
import { Host } from "../../src/cli/Host.ts"
import type { Environment } from "../../src/layers/settings/Settings.ts"
import type { Kind } from "../layers/store/Stores.ts"
import { listening } from "../world/Egress.ts"
import { program, root } from "../world/Fleet.ts"

/** Runs `music-backend` with these arguments; `host` replaces parts of its process. */
export const run = (
  args: ReadonlyArray<string>,
  environment: Environment,
  host: Partial<Host["Type"]> = {}
) =>
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
      /** Standard output as JSON. */
      get json(): unknown {
        return JSON.parse(out)
      }
    }
  })

/** Runs a line of a shell, in which `music` is the program that was built. */
export const shell = (line: string, environment: Readonly<Record<string, string>> = {}) => {
  const music = `set -o pipefail; music() { "${process.execPath}" ${program} "$@"; }`
  const env = { PATH: process.env.PATH, ...environment }
  const words = ["--norc", "-c", `${music}; ${line}`]
  const { status, stderr, stdout } = spawnSync("bash", words, { cwd: root, env, encoding: "utf8" })
  return { exit: status, out: stdout, err: stderr }
}

/** The environment that names this database. */
export const environmentOf = ({ name }: Kind, place: string): Record<string, string> =>
  name === "SQLite" ? { MUSIC_DATABASE_PATH: place } : { MUSIC_DATABASE_URL: place }

/** A port of another program until the scope closes, which accepts connections and says nothing. */
export const tcpServer = () => {
  let connections = 0
  const server = createServer(() => {
    connections += 1
  })
  return Effect.map(listening(server), (port) => ({ port, connections: () => connections }))
}
