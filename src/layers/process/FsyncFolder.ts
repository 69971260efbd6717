import { closeSync, fsyncSync, openSync } from "node:fs"

/** A rename and a new file are lasting only when their folder is. */
export const fsyncFolder = (folder: string): void => {
  const descriptor = openSync(folder, "r")
  fsyncSync(descriptor)
  closeSync(descriptor)
}
