/** A copy of the working tree in a temporary folder, for programs that break the code on purpose. */
import { execFileSync } from "node:child_process"
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

export const root = fileURLToPath(new URL("..", import.meta.url))

export interface Scratch {
  readonly folder: string
  readonly remove: () => void
}

/** Has every file that git does not ignore, and the dependencies by a link. The process must end through `exit` for it to be removed. */
export const scratchCopy = (): Scratch => {
  const folder = mkdtempSync(join(tmpdir(), "music-scratch-"))
  const remove = () => rmSync(folder, { recursive: true, force: true })
  process.once("exit", remove)
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130))
  const listed = execFileSync("git", ["ls-files", "-z", "-co", "--exclude-standard"], {
    cwd: root,
    encoding: "utf8"
  })
  for (const file of listed.split("\0"))
    if (file !== "" && existsSync(join(root, file))) {
      mkdirSync(dirname(join(folder, file)), { recursive: true })
      copyFileSync(join(root, file), join(folder, file))
    }
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"))
  return { folder, remove }
}
