/** Runs the commands of a document as a reader does: in a folder, with the variables that the text names. */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"

export interface Desk {
  readonly folder: string
  readonly environment: Readonly<Record<string, string>>
  /** Places that a document can only name by example, and those of the test: folders, hosts, ports. */
  readonly instead?: Readonly<Record<string, string>>
}

export interface Ended {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

export interface Started {
  /** Waits until the output matches; fails when the commands end before. */
  readonly says: (pattern: RegExp) => Promise<RegExpExecArray>
  /** Ctrl-C: the terminal sends SIGINT to all programs of the command. */
  readonly interrupt: () => Promise<Ended>
  readonly ended: Promise<Ended>
  /** For a test that failed: nothing is left behind. */
  readonly kill: () => void
}

const commandsOf = (script: string, { instead = {} }: Desk): string =>
  Object.entries(instead).reduce((text, [example, own]) => text.replaceAll(example, own), script)

const signal = ({ pid }: ChildProcess, name: NodeJS.Signals) => {
  if (pid === undefined) return
  try {
    process.kill(-pid, name)
  } catch {
    // It has ended.
  }
}

/** As in a terminal, Ctrl-C ends the command and not the shell; `-e`: the first command that fails ends the others. */
const terminal = (commands: string) => ["-ec", `trap : INT\n${commands}`]

/** Starts commands that run until they are interrupted. */
export const background = (script: string, desk: Desk): Started => {
  const child = spawn("sh", terminal(commandsOf(script, desk)), {
    cwd: desk.folder,
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      npm_config_update_notifier: "false",
      ...desk.environment
    },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true
  })
  const text = { out: "", err: "" }
  const waiting = new Set<() => void>()
  const keep = (name: "out" | "err") => (chunk: Buffer) => {
    text[name] += chunk.toString("utf8")
    for (const check of waiting) check()
  }
  child.stdout.on("data", keep("out"))
  child.stderr.on("data", keep("err"))
  const ended = once(child, "close").then(([code]): Ended => ({ code, ...text }))
  const says = (pattern: RegExp) =>
    new Promise<RegExpExecArray>((resolve, reject) => {
      const check = () => {
        const found = pattern.exec(text.out) ?? pattern.exec(text.err)
        if (found === null) return
        waiting.delete(check)
        resolve(found)
      }
      waiting.add(check)
      check()
      void ended.then(({ code, err, out }) =>
        reject(new Error(`ended with ${code} before it said ${pattern}:\n${out}${err}`))
      )
    })
  return {
    says,
    ended,
    interrupt: () => {
      signal(child, "SIGINT")
      return ended
    },
    kill: () => signal(child, "SIGKILL")
  }
}

/** Runs commands that must succeed, and returns their output. */
export const run = async (script: string, desk: Desk): Promise<Ended> => {
  const result = await background(script, desk).ended
  if (result.code !== 0) throw new Error(`exit ${result.code} of\n${script}\n${result.out}${result.err}`)
  return result
}
