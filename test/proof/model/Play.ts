import type { Play } from "../Suite.ts"
import { addChunks, chunk, type ChunkResult, noFigures, playChunk, withStage } from "./Suite.ts"

/** Sequences of a full run. */
const full = 10_000

export const play: Play = async ({ count = full, log, seed }) => {
  let result: ChunkResult = { figures: noFigures, broken: [] }
  await withStage(async (folder) => {
    for (let index = 0; index * chunk < count; index++) {
      const part = { seed, index, count: Math.min(chunk, count - index * chunk) }
      result = addChunks(result, await playChunk(folder, part))
      log(`${result.figures.sequences} of ${count} sequences, ${result.broken.length} broken`)
    }
  })
  return result
}
