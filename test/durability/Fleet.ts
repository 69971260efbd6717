/** Starts and kills instances of the real backend, which is bundled once per run for fast starts. */
import { type ChildProcess, fork } from "node:child_process"
import { once } from "node:events"
import { createRequire } from "node:module"
import { constants, setPriority } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { build } from "esbuild"
import { scratch } from "./Scratch.ts"

const boot = fileURLToPath(new URL("./boot.mjs", import.meta.url))
/** The program of an instance. */
export const entry = fileURLToPath(new URL("./Instance.ts", import.meta.url))

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

/** From the parent: call a method of the store, or end and keep the compiled code. */
export type Asked =
  | { readonly call: string; readonly id: number; readonly parameters: ReadonlyArray<unknown> }
  | { readonly keepCompiled: true }

/** From an instance. */
export interface Told {
  /** Its address, once it listens. */
  readonly ready?: string
  /** A name under which it takes leases. */
  readonly owner?: string
  /** So many items were delivered now. */
  readonly delivered?: number
  /** The answer to a call. */
  readonly id?: number
  readonly result?: unknown
  readonly error?: string
}

/** Options of an instance that are not settings. */
export interface InstanceOptions {
  readonly crashAt?: string
  /** Limits of the workers, milliseconds. */
  readonly bounds?: Readonly<Record<string, number>>
  readonly reconcileSeconds?: ReadonlyArray<number>
  /** Tunes the garbage collector for a short run. */
  readonly brief?: boolean
  /** Runs at low priority. */
  readonly modest?: boolean
}

/** Limits under which recovery takes a second or two. A lease is longer than the pauses of a busy machine. */
export const quick: InstanceOptions = {
  brief: true,
  reconcileSeconds: [0.05, 0.1, 0.2],
  bounds: {
    lease: 1_500,
    telemetryLease: 3_000,
    telemetryStopGrace: 300,
    telemetryPollInterval: 200,
    batchDelay: 50,
    firstBackoff: 50,
    probeInterval: 300,
    writeSpacing: 20,
    hourlyWrites: 100_000,
    ordinaryHourlyWrites: 100_000,
    sweepDelay: 1_000
  }
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
