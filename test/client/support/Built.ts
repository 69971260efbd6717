/** The bundles of the client in a separate folder, because `dist` belongs to the build; and projects that have them installed. */
import { execFile } from "node:child_process"
import { cp, mkdir, symlink, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { promisify } from "node:util"
import { root, scratch } from "../../world/Fleet.ts"

export type Built = ReturnType<typeof scratch>

export const buildClient = async (options: { readonly types: boolean }): Promise<Built> => {
  const made = scratch()
  const words = ["scripts/build-client.mjs", "--out", made.path, ...(options.types ? [] : ["--no-types"])]
  const env = { ...process.env, MUSIC_REPOSITORY: "owner/music" }
  await promisify(execFile)(process.execPath, words, { cwd: root, env })
  return made
}

/** A project that has the client installed, and further folders of `node_modules`. */
export const makeConsumer = async (built: Built, installed: ReadonlyArray<string>): Promise<Built> => {
  const made = scratch()
  const modules = join(made.path, "node_modules")
  await mkdir(modules)
  await cp(built.path, join(modules, "music-client"), { recursive: true })
  await writeFile(join(made.path, "package.json"), '{"type":"module"}')
  for (const name of installed) {
    await mkdir(join(modules, name, ".."), { recursive: true })
    await symlink(join(root, "node_modules", name), join(modules, name))
  }
  return made
}
