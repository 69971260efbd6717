/** Starts and kills instances of the real backend, which is bundled once per run for fast starts. */
import { type ChildProcess, fork } from "node:child_process"
import { once } from "node:events"
import { createRequire } from "node:module"
import { constants, setPriority } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { build } from "esbuild"
import type { DeliveryLimits } from "../../src/layers/delivery/DeliveryLimits.ts"
import type { Asked, Told } from "./Messages.ts"
import { scratch } from "./Scratch.ts"

const boot = fileURLToPath(new URL("./boot.mjs", import.meta.url))

export interface Bundle {
  readonly file: string
  readonly remove: () => void
}

/** Bundles with the options of scripts/build.mjs into one CommonJS script, whose compiled code can be cached. */
export const bundle = async (entry: string): Promise<Bundle> => {
  const { path, remove } = scratch()
  const file = join(path, "bundle.cjs")
  const addon = createRequire(import.meta.url).resolve("better-sqlite3")
  await build({
    entryPoints: [entry],
    outfile: file,
    bundle: true,
    minifyWhitespace: true,
    minifySyntax: true,
    platform: "node",
    target: "node20",
    format: "cjs",
    legalComments: "none",
    // Loads the addon with require: in a script from cached code, import() never settles.
    supported: { "dynamic-import": false },
    define: { "import.meta.url": "__url" },
    banner: { js: 'const __url = require("node:url").pathToFileURL(__filename).href' },
    plugins: [
      {
        name: "addon",
        setup: (plugin) =>
          plugin.onResolve({ filter: /^(?:better-sqlite3|pg-native)$/ }, ({ path }) => ({
            path: path === "better-sqlite3" ? addon : path,
            external: true
          }))
      }
    ],
    logLevel: "error"
  })
  return { file, remove }
}

export interface Death {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface Instance {
  readonly pid: number
  /** Its URL; undefined when it died before it listened. */
  readonly ready: Promise<string | undefined>
  readonly died: Promise<Death>
  readonly isDead: () => boolean
  /** The last part of its output. */
  readonly log: () => string
  /** Names under which it holds leases. */
  readonly owners: ReadonlySet<string>
  /** Times of its deliveries by `performance.now()`. */
  readonly deliveries: ReadonlyArray<number>
  /** Calls a method of its store. Never resolves when the instance dies. */
  readonly call: (method: string, ...parameters: ReadonlyArray<unknown>) => Promise<unknown>
  /** Ends it and caches its compiled code for the next instances. */
  readonly keepCompiled: () => Promise<Death>
  readonly kill: () => void
  readonly stop: () => void
}

/** Options of an instance that are not settings. */
export interface InstanceOptions {
  readonly crashAt?: string
  readonly bounds?: Partial<DeliveryLimits>
  readonly reconcileSeconds?: ReadonlyArray<number>
  /** Tunes the garbage collector for a short run. */
  readonly brief?: boolean
  /** Runs at low priority. */
  readonly modest?: boolean
}

/** Parallel garbage collection costs more than a short run gains from it. */
const forBriefLives = ["--single-threaded-gc", "--max-semi-space-size=64"]

const keptLog = 200_000

export const startInstance = (
  file: string,
  environment: Readonly<Record<string, string>>,
  { brief = false, crashAt = "", modest = false, ...options }: InstanceOptions = {}
): Instance => {
  const child: ChildProcess = fork(boot, [file], {
    execArgv: brief ? forBriefLives : [],
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      ...environment,
      DURABILITY_CRASH_AT: crashAt,
      DURABILITY_SQLITE: createRequire(import.meta.url).resolve("better-sqlite3"),
      DURABILITY_OPTIONS: JSON.stringify(options)
    },
    stdio: ["ignore", "pipe", "pipe", "ipc"]
  })
  if (modest && child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_LOW)
  let text = ""
  const keep = (chunk: Buffer) => {
    text = `${text}${chunk.toString("utf8")}`.slice(-keptLog)
  }
  child.stdout?.on("data", keep)
  child.stderr?.on("data", keep)

  // The instance may have just died.
  const ask = (message: Asked) => child.send(message, () => undefined)

  const owners = new Set<string>()
  const deliveries: Array<number> = []
  const answers = new Map<number, (message: Told) => void>()
  let calls = 0
  let dead = false
  const died = once(child, "exit").then(([code, signal]): Death => {
    dead = true
    return { code, signal }
  })
  const ready = new Promise<string | undefined>((resolve) => {
    void died.then(() => resolve(undefined))
    child.on("message", (message: Told) => {
      if (message.ready !== undefined) resolve(message.ready)
      if (message.owner !== undefined) owners.add(message.owner)
      if (message.delivered !== undefined) deliveries.push(performance.now())
      if (message.id !== undefined) answers.get(message.id)?.(message)
    })
  })
  return {
    pid: child.pid ?? 0,
    ready,
    died,
    isDead: () => dead,
    log: () => text,
    owners,
    deliveries,
    call: (method, ...parameters) =>
      new Promise((resolve, reject) => {
        calls += 1
        const id = calls
        answers.set(id, ({ error, result }) =>
          error === undefined ? resolve(result) : reject(new Error(error))
        )
        ask({ call: method, id, parameters })
      }),
    keepCompiled: () => {
      ask({ keepCompiled: true })
      return died
    },
    kill: () => child.kill("SIGKILL"),
    stop: () => child.kill("SIGTERM")
  }
}
