/** Plays the chunks that its parent sends, one after the other. */
import { type Chunk, playChunk, withStage } from "./Suite.ts"

await withStage(
  (folder) =>
    new Promise<void>((resolve) => {
      process.on("message", (chunk: Chunk) => {
        playChunk(folder, chunk).then((result) => process.send?.(result))
      })
      process.on("disconnect", resolve)
      process.send?.("ready")
    })
)
