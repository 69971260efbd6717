/** The bundles of the client in a separate folder, because `dist` belongs to the build; and projects that have them installed. */
import { execFile } from "node:child_process"
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { root } from "../../world/Fleet.ts"

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
  const words = ["scripts/build-client.mjs", "--out", made.folder, ...(options.types ? [] : ["--no-types"])]
  await promisify(execFile)(process.execPath, words, { cwd: root })
  return made
}

/** A project that has the client installed, and further folders of `node_modules`. */
export const makeConsumer = async (built: Built, installed: ReadonlyArray<string>): Promise<Built> => {
  const made = await scratch()
  const modules = join(made.folder, "node_modules")
  await mkdir(modules)
  await cp(built.folder, join(modules, "music-client"), { recursive: true })
  await writeFile(join(made.folder, "package.json"), '{"type":"module"}')
  for (const name of installed) {
    await mkdir(join(modules, name, ".."), { recursive: true })
    await symlink(join(root, "node_modules", name), join(modules, name))
  }
  return made
}
