/** Reads of small files, for Node. No read follows a pipe or a device, so none waits for ever. */
import { constants, type Stats } from "node:fs"
import { open } from "node:fs/promises"
import { SessionStoreError } from "../failures/StoreFailures.ts"

/** The code of an error of Node. */
export const codeOf = (error: unknown): string | undefined =>
  typeof error === "object" && error !== null && "code" in error && typeof error.code === "string"
    ? error.code
    : undefined

/** Runs, and returns undefined for one expected error code. */
export const catchCode = async <A>(code: string, run: () => Promise<A>): Promise<A | undefined> => {
  try {
    return await run()
  } catch (error) {
    return codeOf(error) === code ? undefined : Promise.reject(error)
  }
}

export interface RegularFile {
  /** The whole text; undefined when the file is larger than `mostBytes`. */
  readonly text: string | undefined
  readonly stats: Stats
}

/** Reads a file through one handle, so text and stats belong together. Returns undefined when there is none. */
export const readRegularFile = async (
  path: string,
  options: { readonly mostBytes: number; readonly followLinks: boolean }
): Promise<RegularFile | undefined> => {
  // Without O_NONBLOCK, opening a pipe waits for its writer. Windows has neither flag.
  const flags =
    constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) | (options.followLinks ? 0 : (constants.O_NOFOLLOW ?? 0))
  const handle = await catchCode("ENOENT", () => open(path, flags))
  if (handle === undefined) return undefined
  try {
    const stats = await handle.stat()
    if (!stats.isFile())
      // Awaited here: while the handle is closed below, the rejection would count as unhandled.
      return await Promise.reject(
        new SessionStoreError({
          reason: "misconfigured",
          path,
          hint: "Something else is in the place of a file: remove it, or give another directory."
        })
      )
    return { text: stats.size > options.mostBytes ? undefined : await handle.readFile("utf8"), stats }
  } finally {
    await handle.close()
  }
}
