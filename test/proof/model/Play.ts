/** Plays generated sequences until something breaks, and shrinks that. */
import { createHash } from "node:crypto"
import { FastCheck } from "effect"
import type { Play } from "../Suite.ts"
import { anyCommand } from "./Commands.ts"
import { type Name, withStage } from "./Stage.ts"

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

export const play: Play = async ({ count = full, seed }) => {
  digestHere()
  const commands = FastCheck.commands([anyCommand], { maxCommands, size: "max" })
  const property = FastCheck.asyncProperty(setup, commands, ({ begin, ...facts }, chosen) =>
    withStage(facts, async (stage) => {
      for (const name of begin) await stage.begin(name)
      await FastCheck.asyncModelRun(() => ({ model: stage, real: undefined }), chosen)
      await stage.play("all faults end, and each program tries again", () => stage.settle())
      stage.demand(stage.world.oracle.problems())
    })
  )
  const details = await FastCheck.check(property, { seed, numRuns: count })
  return {
    figures: { sequences: details.numRuns },
    broken: details.failed ? [(await FastCheck.asyncDefaultReportMessage(details)) ?? ""] : []
  }
}
