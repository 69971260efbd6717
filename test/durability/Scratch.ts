/** Temporary folders. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

export interface Scratch {
  readonly path: string
  readonly remove: () => void
}

/** A new folder, removed at the latest when this process ends. */
export const scratch = (): Scratch => {
  const path = mkdtempSync(join(tmpdir(), "music-durability-"))
  const remove = () => {
    process.off("exit", remove)
    rmSync(path, { recursive: true, force: true })
  }
  process.once("exit", remove)
  return { path, remove }
}
