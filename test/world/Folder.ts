import { afterAll } from "vitest"
import { scratch } from "./Fleet.ts"

/** The path of a folder for the tests of a file. */
export const folderOfFile = (): string => {
  const { path, remove } = scratch()
  afterAll(remove)
  return path
}
