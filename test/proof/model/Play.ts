import { availableParallelism } from "node:os"
import type { Outcome, Play } from "../Suite.ts"
import { addChunks, type ChunkResult, chunksOf, noFigures, playChunk, withStage } from "./Suite.ts"
import { playInWorkers } from "./Workers.ts"

/** Sequences of a full run. */
const full = 10_000

const outcomeOf = ({ broken, figures }: ChunkResult): Outcome => {
  const { commands, faults, kills, requests, rotations, sequences, sessions, upstreamCalls } = figures
  return {
    figures: {
      sequences,
      commands,
      requests,
      "upstream calls": upstreamCalls,
      faults,
      kills,
      sessions,
      rotations,
      "shrunk failures": broken.length
    },
    broken
  }
}

/** In this process, for a few sequences. */
export const playHere = async (seed: number, count: number): Promise<Outcome> => {
  let result: ChunkResult = { figures: noFigures, broken: [] }
  await withStage(async (folder) => {
    for (const chunk of chunksOf(seed, count)) result = addChunks(result, await playChunk(folder, chunk))
  })
  return outcomeOf(result)
}

export const play: Play = async ({ count = full, log, seed }) => {
  let result: ChunkResult = { figures: noFigures, broken: [] }
  await playInWorkers(availableParallelism(), chunksOf(seed, count), (played) => {
    result = addChunks(result, played)
    log(`${result.figures.sequences} of ${count} sequences, ${result.broken.length} broken`)
    for (const broken of played.broken) log(broken)
  })
  return outcomeOf(result)
}
