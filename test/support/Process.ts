/** The built server as a separate process, started like an operator does. */
import { type ChildProcess, spawn } from "node:child_process"
import { randomInt } from "node:crypto"
import { once } from "node:events"
import { createServer } from "node:net"
import { fileURLToPath } from "node:url"
import type { SimulatedUpstreams } from "../../sandbox/SimulatedUpstreams.ts"

export const root = fileURLToPath(new URL("../../", import.meta.url))

export interface Running {
  readonly child: ChildProcess
  readonly output: () => string
  /** Resolves when the output matches; rejects when the process ends before. */
  readonly says: (pattern: RegExp) => Promise<RegExpExecArray>
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>
}

/** Starts a program; only what `environment` names is set, beside the path. */
export const start = (
  command: string,
  parameters: ReadonlyArray<string>,
  environment: Readonly<Record<string, string>>
): Running => {
  const child = spawn(command, parameters, {
    cwd: root,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...environment },
    stdio: ["ignore", "pipe", "pipe"]
  })
  let text = ""
  const waiting = new Set<() => void>()
  const keep = (chunk: Buffer) => {
    text += chunk.toString("utf8")
    for (const check of waiting) check()
  }
  child.stdout.on("data", keep)
  child.stderr.on("data", keep)
  // "close" comes after the last output, "exit" may come before it.
  const ended = once(child, "close").then(([code, signal]) => ({ code, signal }))
  const says = (pattern: RegExp) =>
    new Promise<RegExpExecArray>((resolve, reject) => {
      const check = () => {
        const found = pattern.exec(text)
        if (found === null) return
        waiting.delete(check)
        resolve(found)
      }
      waiting.add(check)
      check()
      void ended.then(() => reject(new Error(`ended before it said ${pattern}:\n${text}`)))
    })
  return { child, output: () => text, says, ended }
}

/** Below the ports that systems give to connections and to listeners on port 0, so that no other process gets it meanwhile. */
const reservable = { from: 10_000, to: 32_000 }

const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer()
    server.once("error", () => resolve(false))
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)))
  })

/** A port that is free now, for a server that cannot say which port it was given. */
export const freePort = async (): Promise<number> => {
  const port = randomInt(reservable.from, reservable.to)
  return (await isFree(port)) ? port : freePort()
}

/** The environment of a server against a world. */
export const environmentFor = (
  world: SimulatedUpstreams,
  options: { readonly port: number; readonly databasePath: string }
): Readonly<Record<string, string>> => ({
  MUSIC_BIND: `127.0.0.1:${options.port}`,
  MUSIC_DATABASE_PATH: options.databasePath,
  MUSIC_IAM_URL: world.iam.url,
  MUSIC_TING_URL: world.ting.url,
  MUSIC_IAM_APP_SECRET: world.seeded.production.musicSecret,
  MUSIC_IAM_WEBHOOK_SECRET: world.seeded.production.webhookSecret,
  MUSIC_LOG_FORMAT: "json"
})
