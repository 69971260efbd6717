/** Plays generated sequences: a slice in this process, a full run in as many processes as there are processors. */
import { fork } from "node:child_process"
import { createHash } from "node:crypto"
import { availableParallelism } from "node:os"
import { fileURLToPath } from "node:url"
import * as FastCheck from "effect/FastCheck"
import type { Outcome, Play, PlayOptions } from "../Suite.ts"
import { anyCommand } from "./Commands.ts"
import { type Name, type Stage, withStage } from "./Stage.ts"

/** Sequences of a full run. */
const full = 10_000
/** Commands of one sequence. */
const maxCommands = 44

const { constantFrom, integer, record, subarray } = FastCheck

const setup = record({
  begin: subarray<Name>(["A", "C", "D"], { minLength: 1 }),
  budget: constantFrom(110, 110, 110, 15, 4),
  random: integer({ min: 1, max: 1_000_000 })
})

/** The platform's digest runs in a thread of its own, which the simulated time does not wait for. */
const digestHere = (): void => {
  const value = (_: string, bytes: Uint8Array) =>
    Promise.resolve(new Uint8Array(createHash("sha256").update(bytes).digest()).buffer)
  Object.defineProperty(globalThis.crypto.subtle, "digest", { configurable: true, value })
}

const figuresOf = ({ law, world }: Stage, commands: number) => ({
  sequences: 1,
  commands,
  requests: world.requests(),
  "upstream calls": world.upstreams.calls.length,
  faults: world.upstreams.calls.filter(({ fault }) => fault !== undefined).length,
  kills: world.instances.filter(({ isAlive }) => !isAlive()).length,
  rotations: law.rotations()
})

const sumOf = (outcomes: ReadonlyArray<Outcome>): Outcome => {
  const figures: Record<string, number> = {}
  for (const [name, value] of outcomes.flatMap((outcome) => Object.entries(outcome.figures)))
    figures[name] = (figures[name] ?? 0) + value
  return { figures, broken: outcomes.flatMap(({ broken }) => broken) }
}

type Part = Pick<PlayOptions, "seed" | "replay"> & { readonly count: number }

/** Plays until something breaks, and shrinks that. */
export const playPart = async ({ count, replay, seed }: Part): Promise<Outcome> => {
  digestHere()
  const played: Array<Outcome> = []
  let failed = false
  const [path, replayPath] = replay ?? []
  const commands = FastCheck.commands([anyCommand], {
    maxCommands,
    size: "max",
    ...(replayPath === undefined ? {} : { replayPath })
  })
  const property = FastCheck.asyncProperty(setup, commands, ({ begin, ...facts }, chosen) =>
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
      if (!failed) played.push({ figures: figuresOf(stage, [...chosen].length), broken: [] })
    })
  )
  const details = await FastCheck.check(property, {
    seed,
    numRuns: count,
    ...(path === undefined ? {} : { path })
  })
  const broken = details.failed ? [(await FastCheck.asyncDefaultReportMessage(details)) ?? ""] : []
  return sumOf([...played, { figures: {}, broken }])
}

const worker = "model worker"

const playInProcess = (part: Part) =>
  new Promise<Outcome>((resolve, reject) => {
    const child = fork(fileURLToPath(import.meta.url), [worker], {
      // Most objects live as long as one sequence.
      execArgv: ["--import", "tsx", "--max-semi-space-size=64"]
    })
    child.on("message", resolve)
    child.on("exit", (code) => reject(new Error(`a worker ended with ${code}`)))
    child.send(part)
  })

if (process.argv[2] === worker)
  process.on("message", (part: Part) =>
    playPart(part).then((outcome) => process.send?.(outcome, () => process.exit()))
  )

export const play: Play = async ({ count = full, replay, seed }) => {
  if (replay !== undefined) return playPart({ seed, count: 1, replay })
  const parts = availableParallelism()
  return sumOf(
    await Promise.all(
      Array.from({ length: parts }, (_, index) =>
        // The first part is that of the slice.
        playInProcess({ seed: seed + index * 1_000_003, count: Math.ceil(count / parts) })
      )
    )
  )
}
