/** A separate project that has the client installed. */
import { cp, mkdir, symlink, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { root } from "../../support/Process.ts"
import { type Built, scratch } from "./Built.ts"

export const makeConsumer = async (
  built: Built,
  /** Further folders of `node_modules`. */
  installed: ReadonlyArray<string>
): Promise<Built> => {
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
