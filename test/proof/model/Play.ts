/** Plays generated sequences: here for a few, in processes beside each other for many. Each chunk has a seed, so that it can be played alone. */
import { fork } from "node:child_process"
import { createHash } from "node:crypto"
import { availableParallelism } from "node:os"
import { fileURLToPath } from "node:url"
import * as FastCheck from "effect/FastCheck"
import type { Outcome, Play } from "../Suite.ts"
import { anyCommand } from "./Commands.ts"
import { type Name, type Stage, withStage } from "./Stage.ts"

/** Sequences of a full run, and of one chunk. */
const full = 10_000
const chunkSize = 50
/** Commands of one sequence. */
const maxCommands = 44

export interface Chunk {
  readonly seed: number
  readonly count: number
  /** Of a failure that was found: the path of the run, and that of its commands. */
  readonly replay?: readonly [path: string, commands: string] | undefined
}

const { constantFrom, integer, record, subarray } = FastCheck

const setup = record({
  begin: subarray<Name>(["A", "C", "D"], { minLength: 1 }),
  budget: constantFrom(110, 110, 110, 15, 4),
  random: integer({ min: 1, max: 1_000_000 })
})

/** The platform's digest runs in a thread of its own, which the simulated time does not wait for. */
const digestHere = (): void => {
  Object.defineProperty(globalThis.crypto.subtle, "digest", {
    configurable: true,
    value: (_: string, bytes: Uint8Array) => {
      const digest = createHash("sha256").update(bytes).digest()
      return Promise.resolve(new Uint8Array(digest).buffer)
    }
  })
}

const figuresOf = ({ law, world }: Stage, commands: number) => ({
  sequences: 1,
  commands,
  requests: world.requests(),
  "upstream calls": world.upstreams.calls.length,
  faults: world.upstreams.calls.filter(({ fault }) => fault !== undefined).length,
  kills: world.instances.filter(({ isAlive }) => !isAlive()).length,
  sessions: world.upstreams.planes.reduce(
    (sum, plane) => sum + world.upstreams.iam.controls.plane(plane).families.size,
    0
  ),
  rotations: law.rotations()
})

type Figures = Record<string, number>

const addTo = (sums: Figures, more: Readonly<Figures>): void => {
  for (const [name, value] of Object.entries(more)) sums[name] = (sums[name] ?? 0) + value
}

/** Plays one chunk, and shrinks its first failure. */
export const playChunk = async ({ count, replay, seed }: Chunk): Promise<Outcome> => {
  digestHere()
  const figures: Figures = {}
  let failed = false
  const commands = FastCheck.commands([anyCommand], {
    maxCommands,
    size: "max",
    ...(replay === undefined ? {} : { replayPath: replay[1] })
  })
  const details = await FastCheck.check(
    FastCheck.asyncProperty(setup, commands, ({ begin, ...facts }, chosen) =>
      withStage(facts, async (stage) => {
        try {
          for (const name of begin) await stage.begin(name)
          await FastCheck.asyncModelRun(() => ({ model: stage, real: undefined }), chosen)
          await stage.play("all faults end, and each program tries again", () => stage.settle())
          stage.demand(stage.world.oracle.problems())
        } catch (error) {
          failed = true
          throw error
        }
        if (!failed) addTo(figures, figuresOf(stage, [...chosen].length))
      })
    ),
    { seed, numRuns: count, ...(replay === undefined ? {} : { path: replay[0] }) }
  )
  return {
    figures,
    broken: details.failed ? [(await FastCheck.asyncDefaultReportMessage(details)) ?? ""] : []
  }
}

const chunksOf = (seed: number, count: number): Array<Chunk> =>
  Array.from({ length: Math.ceil(count / chunkSize) }, (_, index) => ({
    // That of the first chunk is the seed itself.
    seed: (seed + Math.imul(index, 0x9e3779b1)) | 0,
    count: Math.min(chunkSize, count - index * chunkSize)
  }))

const worker = "model worker"

/** Plays all chunks in as many processes as there are processors; each takes the next one when it has played one. */
const playInWorkers = async (waiting: Array<Chunk>, onPlayed: (played: Outcome) => void): Promise<void> => {
  const playSome = () =>
    new Promise<void>((resolve, reject) => {
      const child = fork(fileURLToPath(import.meta.url), [worker], {
        // Most objects live as long as one sequence.
        execArgv: ["--import", "tsx", "--max-semi-space-size=64"]
      })
      child.on("message", (message: Outcome | "ready") => {
        if (message !== "ready") onPlayed(message)
        const next = waiting.shift()
        if (next === undefined) child.disconnect()
        else child.send(next)
      })
      child.on("error", reject)
      child.on("exit", (code) => (code === 0 ? resolve() : reject(new Error(`a worker ended with ${code}`))))
    })
  await Promise.all(Array.from({ length: availableParallelism() }, playSome))
}

if (process.argv[2] === worker) {
  process.on("message", (chunk: Chunk) => void playChunk(chunk).then((played) => process.send?.(played)))
  process.on("disconnect", () => process.exit())
  process.send?.("ready")
}

export const play: Play = async ({ count = full, log, replay, seed }) => {
  const figures: Figures = {}
  const broken: Array<string> = []
  const note = (played: Outcome) => {
    addTo(figures, played.figures)
    broken.push(...played.broken)
    log(`${figures.sequences} of ${count} sequences, ${broken.length} broken`)
  }
  if (replay === undefined) await playInWorkers(chunksOf(seed, count), note)
  else note(await playChunk({ seed, count: 1, replay }))
  return { figures, broken }
}
