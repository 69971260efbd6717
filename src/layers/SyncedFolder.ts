import { closeSync, fsyncSync, openSync } from "node:fs"

/** A rename and a new file are lasting only when their folder is. */
export const syncFolder = (folder: string): void => {
  const descriptor = openSync(folder, "r")
  fsyncSync(descriptor)
  closeSync(descriptor)
}
