/** Small files, for Node. No read follows a pipe or a device, so none waits for ever. */
import { constants, type Stats } from "node:fs"
import { open, unlink } from "node:fs/promises"
import { SessionStoreError } from "../failures/StoreFailures.ts"

/** The code of an error of Node. */
export const codeOf = (error: unknown): unknown => Object(error).code

/** Runs, and returns undefined for one expected error code. */
export const catchCode = async <A>(code: string, run: () => Promise<A>): Promise<A | undefined> => {
  try {
    return await run()
  } catch (error) {
    return codeOf(error) === code ? undefined : Promise.reject(error)
  }
}

/** Removes a file, if there is one. */
export const removeFile = (path: string) => catchCode("ENOENT", () => unlink(path))

interface RegularFile {
  /** Empty when the file is larger than `mostBytes`: no such file is one of ours. */
  readonly text: string
  readonly stats: Stats
}

/** Reads a file through one handle, so text and stats belong together. Returns undefined when there is none. */
export const readRegularFile = async (
  path: string,
  options: { readonly mostBytes: number; readonly followLinks: boolean }
): Promise<RegularFile | undefined> => {
  // Without O_NONBLOCK, opening a pipe waits for its writer. Windows has neither flag.
  const { O_NOFOLLOW = 0, O_NONBLOCK = 0, O_RDONLY } = constants
  const flags = O_RDONLY | O_NONBLOCK | (options.followLinks ? 0 : O_NOFOLLOW)
  const handle = await catchCode("ENOENT", () => open(path, flags))
  if (handle === undefined) return undefined
  try {
    const stats = await handle.stat()
    if (stats.isFile())
      return { text: stats.size > options.mostBytes ? "" : await handle.readFile("utf8"), stats }
    const hint = "Something else is in the place of a file: remove it, or give another directory."
    // Awaited here: while the handle is closed below, the rejection would count as unhandled.
    return await Promise.reject(new SessionStoreError({ reason: "misconfigured", path, hint }))
  } finally {
    await handle.close()
  }
}
