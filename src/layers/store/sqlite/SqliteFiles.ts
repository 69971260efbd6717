/** The files of a database: where they are, and how they are made, so that only their owner may read them. */
import {
  closeSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  openSync,
  realpathSync,
  statSync
} from "node:fs"
import { stat, statfs } from "node:fs/promises"
import { dirname, resolve } from "node:path"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { identity } from "effect/Function"
import * as Option from "effect/Option"
import { type StoreSize, StoreUnavailable } from "../../../services/Store.ts"
import { toStoreUnavailable } from "../../../services/store/StoreUnavailable.ts"

export const nameOf = (path: string): string => `SQLite database ${resolve(path)}`

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

/**
 * The database file at `path`, which is made with `create`. Links are followed, as SQLite does: its other files are beside the
 * real one.
 */
export const locateFile = (path: string, create: boolean): Effect.Effect<string, StoreUnavailable> => {
  const database = nameOf(path)
  if (!create && !existsSync(path))
    return new StoreUnavailable({
      database,
      kind: "schema",
      code: "ENOENT",
      details: {
        phrase: "does not exist",
        fix: "set MUSIC_DATABASE_PATH to the server's file, or create one with music-backend migrate"
      }
    })
  return Effect.try({
    try: () => {
      if (create) createFile(resolve(path))
      return realpathSync(path)
    },
    catch: toStoreUnavailable(database)
  })
}

/** Identity of the file at a path; undefined when there is none, or the path leads through something else than folders. */
export const identityOf = (path: string): string | undefined => {
  try {
    const found = statSync(path, { throwIfNoEntry: false })
    return found === undefined ? undefined : `${found.dev}:${found.ino}`
  } catch {
    return undefined
  }
}

/** Of the database at `path`. It opens neither file: closing one would drop the locks that this process has on it. */
export const sizeOf = (path: string): Effect.Effect<StoreSize, StoreUnavailable> =>
  Effect.tryPromise({
    try: async () => {
      const [data, log, disk] = await Promise.all([stat(path), stat(`${path}-wal`), statfs(dirname(path))])
      return { data: data.size, file: Option.some({ log: log.size, free: disk.bavail * disk.bsize }) }
    },
    catch: toStoreUnavailable(nameOf(path))
  })
