/** Processes that play chunks beside each other. */
import { fork } from "node:child_process"
import { fileURLToPath } from "node:url"
import type { Chunk, ChunkResult } from "./Suite.ts"

/** Plays all chunks in as many processes; each takes the next one when it has played one. */
export const playInWorkers = async (
  workers: number,
  chunks: ReadonlyArray<Chunk>,
  onResult: (result: ChunkResult) => void
): Promise<void> => {
  const waiting = [...chunks]
  const playOne = () =>
    new Promise<void>((resolve, reject) => {
      const child = fork(fileURLToPath(new URL("worker.ts", import.meta.url)), {
        // Most objects live as long as one sequence.
        execArgv: ["--import", "tsx", "--max-semi-space-size=64"]
      })
      child.on("message", (message: ChunkResult | "ready") => {
        if (message !== "ready") onResult(message)
        const next = waiting.shift()
        if (next === undefined) child.disconnect()
        else child.send(next)
      })
      child.on("error", reject)
      child.on("exit", (code) => (code === 0 ? resolve() : reject(new Error(`a worker ended with ${code}`))))
    })
  await Promise.all(Array.from({ length: workers }, playOne))
}
