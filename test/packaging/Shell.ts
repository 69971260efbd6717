/** The commands of the documents, run as a reader does: in a folder, with the variables that the text names. */
import type { ChildProcess } from "node:child_process"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import { type SimulatedUpstreams, upstreamEnvironment } from "../../sandbox/SimulatedUpstreams.ts"
import { type Running, root, start, urlOf } from "../world/Fleet.ts"

/** Commands that another part of CI runs. */
const elsewhere = new Set(["npm ci", "npm test", "npm cit", "npm run sandbox -- --walk"])

/** A block without its comments and without the commands that run elsewhere. */
const remaining = (block: string): string =>
  block
    .split("\n")
    .map((line) => line.replace(/(^| +)#.*$/, "").split(" && "))
    .map((commands) => commands.filter((command) => !elsewhere.has(command.trim())).join(" && "))
    .filter((line) => line.trim() !== "")
    .join("\n")

/** The commands below a heading, as in "operations.md: Backup", one script for each block; or its statements of SQL, or its YAML. */
export const scripts = (place: string, language: "sh" | "sql" | "yaml" = "sh"): ReadonlyArray<string> => {
  const [document = "", heading = ""] = place.split(": ")
  const text = readFileSync(join(root, document === "README.md" ? document : `docs/${document}`), "utf8")
  const section = text.split(/^#+ /m).find((part) => part.startsWith(`${heading}\n`)) ?? ""
  const blocks = [...section.matchAll(new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\``, "gm"))]
  return blocks.map(([, block = ""]) => remaining(block)).filter((script) => script !== "")
}

/** The only script of a place. */
export const scriptOf = (place: string): string => {
  const [script = "", ...others] = scripts(place)
  if (script === "" || others.length > 0) throw new Error(`${place} has ${others.length} other scripts`)
  return script
}

interface Desk {
  readonly folder: string
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Places that a document can only name by example, and those of the test: folders, hosts, ports. */
  readonly instead?: Readonly<Record<string, string>>
}

const signal = ({ child }: Running, name: NodeJS.Signals) => {
  // The group of the terminal; it may have ended.
  if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, name)
}

/** Starts commands as in a terminal: the first that fails ends the others, and Ctrl-C ends the command and not the shell. */
const open = (script: string, { environment, folder, instead = {} }: Desk): Running => {
  const commands = Object.entries(instead).reduce(
    (text, [example, own]) => text.replaceAll(example, own),
    script
  )
  const given = Object.entries(environment).map(([name, value = ""]) => [name, value])
  return start("setsid", ["sh", "-ec", `trap : INT\ncd '${folder}'\n${commands}`], Object.fromEntries(given))
}

/** Runs commands that must succeed; returns their output. */
export const run = (script: string, desk: Desk) =>
  Effect.promise(async () => {
    const { ended, output } = open(script, desk)
    const { code } = await ended
    if (code !== 0) throw new Error(`exit ${code} of\n${script}\n${output()}`)
    return output()
  })

/** Starts commands that run until they are interrupted, at the latest by the end of the scope. */
export const background = (script: string, desk: Desk) =>
  Effect.acquireRelease(
    Effect.sync(() => open(script, desk)),
    (running) =>
      Effect.promise(() => {
        signal(running, "SIGKILL")
        return running.ended
      })
  )

/** Ctrl-C: the terminal sends SIGINT to all programs of the command. */
export const interrupt = (running: Running) =>
  Effect.promise(async () => {
    signal(running, "SIGINT")
    const { code } = await running.ended
    if (code !== 0) throw new Error(`exit ${code}\n${running.output()}`)
  })

/** What a program prints until its end. */
export const collect = async (child: ChildProcess): Promise<{ code: number | null; output: string }> => {
  let output = ""
  for (const stream of [child.stdout, child.stderr])
    stream?.on("data", (chunk: Buffer) => {
      output += chunk.toString("utf8")
    })
  const [code] = await once(child, "close")
  return { code, output }
}

/** The URL of a server that listens. */
export const listening = (server: Running) => Effect.promise(() => urlOf(server))

/** The four required settings, for a server at a free port. */
export const required = (world: SimulatedUpstreams): Readonly<Record<string, string>> => {
  const names = ["MUSIC_IAM_APP_SECRET", "MUSIC_IAM_URL", "MUSIC_IAM_WEBHOOK_SECRET", "MUSIC_TING_URL"]
  const all = upstreamEnvironment(world)
  return Object.fromEntries([["MUSIC_BIND", "127.0.0.1:0"], ...names.map((name) => [name, all[name] ?? ""])])
}
