/** Small files, for Node. Nothing reads a pipe or a device, which would never end. */
import { readFile, stat, unlink } from "node:fs/promises"
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

/** What a file holds; empty when it is larger than `mostBytes`, for no such file is one of ours. Undefined when there is none. */
export const readRegularFile = (path: string, mostBytes: number) =>
  catchCode("ENOENT", async () => {
    const stats = await stat(path)
    if (stats.isFile())
      return { text: stats.size > mostBytes ? "" : await readFile(path, "utf8"), changed: stats.mtimeMs }
    const hint = "Something else is in the place of a file: remove it, or give another directory."
    return Promise.reject(new SessionStoreError({ reason: "misconfigured", path, hint }))
  })
