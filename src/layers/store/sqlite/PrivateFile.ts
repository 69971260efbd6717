/** New files and folders that only their owner may read. */
import { closeSync, existsSync, lchownSync, lstatSync, mkdirSync, openSync, statSync } from "node:fs"
import { dirname } from "node:path"
import * as Either from "effect/Either"
import { identity } from "effect/Function"

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true

/** Makes a folder and those above it. Node's own recursive way never returns where none can be, as below `/proc`. */
export const createFolder = (path: string): void => {
  if (isFolder(path)) return
  createFolder(dirname(path))
  const made = Either.try({ try: () => mkdirSync(path, { mode: 0o700 }), catch: identity })
  // Another process may have made it meanwhile.
  if (!isFolder(path)) Either.getOrThrowWith(made, identity)
}

/**
 * Makes an empty file, and its folder. Synchronous, and never for an existing file: closing that would drop the locks that this
 * process has on it.
 */
export const createFile = (path: string): void => {
  if (existsSync(path)) return
  createFolder(dirname(path))
  closeSync(openSync(path, "a", 0o600))
}

/**
 * Gives `file` the owner of `other`, never through a link. What root makes beside a database still belongs to the account that runs
 * the server.
 */
export const keepOwner = (file: string, other: string): void => {
  const { gid, uid } = statSync(other)
  const own = lstatSync(file)
  if (own.uid !== uid || own.gid !== gid) lchownSync(file, uid, gid)
}
