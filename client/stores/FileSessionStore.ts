/** A session store for Node: one private file for each slot, replaced atomically, with a lock between processes. */
import { randomUUID } from "node:crypto"
import { mkdir, open, readdir, rename, unlink } from "node:fs/promises"
import { join, resolve } from "node:path"
import { type FSWatcher, watch } from "node:fs"
import { type FileLockOptions, fileLock, findLockOptionsProblem } from "./FileLock.ts"
import { catchCode, readRegularFile } from "./RegularFiles.ts"
import { isReplaced, replacedError, type SessionStore, type StoredSession } from "./SessionStore.ts"
import { SessionStoreError, storeErrorOf } from "../failures/StoreFailures.ts"

/** Bytes; a session has about one thousand. */
const mostBytes = 1_048_576

export interface FileSessionStoreOptions extends FileLockOptions {
  /** The folder of the session files; a relative one starts at the working directory of the construction. */
  readonly directory: string
}

/** Some systems cannot sync a folder; the durability of the rename is then theirs. */
const syncFolder = async (folder: string): Promise<void> => {
  const handle = await open(folder, "r").catch(() => undefined)
  await handle?.sync().catch(() => undefined)
  await handle?.close().catch(() => undefined)
}

const wrongDirectory = (
  problem: string,
  hint = "Give directory the path of a folder; check the environment variables that it is made of."
): SessionStoreError =>
  new SessionStoreError({
    reason: "misconfigured",
    message: `The option directory of the file session store ${problem}.`,
    hint
  })

/** Describes a wrong option; programs without a type checker may pass any value. */
const findProblem = (options: FileSessionStoreOptions): SessionStoreError | undefined => {
  const directory: unknown = options.directory
  if (typeof directory !== "string") return wrongDirectory("is no text")
  if (directory.trim() === "") return wrongDirectory("is empty")
  // An unset variable in a template: credentials in `./undefined` would be shared by all programs with the same mistake.
  const home = /^~(?=$|[\\/])/
  if (home.test(directory))
    return wrongDirectory(
      "begins with ~, which only a shell knows",
      'Write join(homedir(), "…"), with homedir of node:os and join of node:path.'
    )
  const unset = directory.split(/[\\/]/).find((segment) => segment === "undefined" || segment === "null")
  if (unset !== undefined) return wrongDirectory(`has the segment ${unset}`)
  return findLockOptionsProblem(options)
}

/** The working directory may have been removed. */
const absolute = (directory: string): string => {
  try {
    return resolve(directory)
  } catch {
    return directory
  }
}

/** Resolves to the session in a text. The message of a JSON error would quote credentials. */
const parse = (text: string | undefined, path: string): Promise<object> => {
  try {
    const value: unknown = JSON.parse(text ?? "")
    if (typeof value === "object" && value !== null) return Promise.resolve(value)
  } catch {
    // Reported below.
  }
  return Promise.reject(new SessionStoreError({ reason: "corrupt", path }))
}

/** The session in a file; undefined without one, null for a spoiled one. */
const findSession = async (path: string): Promise<unknown> => {
  const file = await readRegularFile(path, { mostBytes, followLinks: true })
  return file && parse(file.text, path).catch(() => null)
}

/** The file of a session that the service has refused. */
const asideOf = (path: string) => `${path}.ended`

/**
 * Keeps sessions in `directory` (made with mode 0700), one file of mode 0600 for each server and plane, written to the
 * disk before `save` resolves. Processes that name the same directory share one session and one lock. Every failure is a
 * `SessionStoreError` that names the file; a wrong option rejects every use.
 */
export const fileSessionStore = (options: FileSessionStoreOptions): SessionStore => {
  const given: FileSessionStoreOptions = { ...options }
  const problem = findProblem(given)
  const directory = problem === undefined ? absolute(given.directory) : ""
  const nameOf = (slot: string) => `session-${slot}.json`
  const pathOf = (slot: string) => join(directory, nameOf(slot))
  const lock = fileLock((slot) => join(directory, `session-${slot}.lock`), given)

  /** Runs with the path of a file or folder; a failure names it. */
  const naming = async <A>(path: string, run: (path: string) => Promise<A>): Promise<A> => {
    if (problem !== undefined) return Promise.reject(problem)
    return run(path).catch((cause) => Promise.reject(storeErrorOf(cause, path)))
  }
  const ready = () => naming(directory, () => mkdir(directory, { recursive: true, mode: 0o700 }))

  /** Removes temporary files of a crashed save, because they hold credentials. Saves happen under the lock. */
  const clean = async (slot: string): Promise<void> => {
    const left = (await readdir(directory)).filter(
      (name) => name.startsWith(`${nameOf(slot)}.`) && name.endsWith(".tmp")
    )
    await Promise.all(left.map((name) => catchCode("ENOENT", () => unlink(join(directory, name)))))
  }

  /** Writes and syncs a file beside the session's and runs `use` with it; a failure removes it. */
  const withTemporary = async (
    slot: string,
    session: StoredSession,
    use: (temporary: string) => Promise<void>
  ): Promise<void> => {
    await ready()
    await clean(slot)
    const temporary = `${pathOf(slot)}.${randomUUID()}.tmp`
    const handle = await open(temporary, "wx", 0o600)
    try {
      try {
        await handle.writeFile(`${JSON.stringify(session)}\n`)
        await handle.sync()
      } finally {
        await handle.close()
      }
      await use(temporary)
    } catch (error) {
      await unlink(temporary).catch(() => undefined)
      return Promise.reject(error)
    }
  }

  return {
    load: (slot) =>
      naming(pathOf(slot), async (path) => {
        const file = await readRegularFile(path, { mostBytes, followLinks: true })
        return file === undefined ? undefined : parse(file.text, path)
      }),
    save: (slot, session, replaced) =>
      naming(pathOf(slot), async (path) => {
        await withTemporary(slot, session, async (temporary) => {
          // A later saver removes the temporary file, so that this one fails between its check and its rename.
          if (isReplaced(await findSession(path), replaced)) return Promise.reject(replacedError(path))
          return rename(temporary, path)
        })
        await syncFolder(directory)
      }),
    // Everything but the rename, so that a process whose lock was broken never replaces a newer pair.
    probe: (slot, session) => naming(pathOf(slot), () => withTemporary(slot, session, unlink)),
    clear: (slot, aside) =>
      naming(pathOf(slot), async (path) => {
        const remove = (file: string) => catchCode("ENOENT", () => unlink(file))
        if (aside === true) await catchCode("ENOENT", () => rename(path, asideOf(path)))
        else await Promise.all([path, asideOf(path)].map(remove))
        await catchCode("ENOENT", () => clean(slot))
        await syncFolder(directory)
      }),
    watch: (slot, changed) => {
      let watcher: FSWatcher | undefined
      let isOver = false
      const notice = (_: string, file: string | null) => {
        if (file === null || file === nameOf(slot)) changed()
      }
      const begin = () => {
        if (isOver) return
        watcher = watch(directory, { persistent: false }, notice)
        // The folder may be removed: the next call notices what changed.
        watcher.on("error", () => watcher?.close())
      }
      ready()
        .then(begin)
        .catch(() => undefined)
      return () => {
        isOver = true
        watcher?.close()
      }
    },
    lock: {
      acquire: async (slot, signal) => {
        await ready()
        return lock.acquire(slot, signal)
      }
    }
  }
}
