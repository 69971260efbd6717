/** The bundles of the client, built into a separate folder, because `dist` belongs to the build. */
import { execFile } from "node:child_process"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { root } from "../../support/Process.ts"

export interface Built {
  readonly folder: string
  readonly remove: () => Promise<void>
}

export const scratch = async (): Promise<Built> => {
  const folder = await mkdtemp(join(tmpdir(), "music-client-"))
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) }
}

export const buildClient = async (options: { readonly types: boolean }): Promise<Built> => {
  const made = await scratch()
  const parameters = [
    "scripts/build-client.mjs",
    "--out",
    made.folder,
    ...(options.types ? [] : ["--no-types"])
  ]
  await promisify(execFile)(process.execPath, parameters, { cwd: root })
  return made
}
