/** A session store for Node: one private file for each slot, replaced atomically, with a lock between processes. */
import { randomUUID } from "node:crypto"
import { type FSWatcher, watch } from "node:fs"
import { mkdir, open, readdir, rename, unlink, writeFile } from "node:fs/promises"
import { join, resolve } from "node:path"
import { ignore, isRecord, tried } from "../Values.ts"
import { SessionStoreError, storeErrorOf } from "../failures/StoreFailures.ts"
import { fileLock, type FileLockOptions } from "./FileLock.ts"
import { catchCode, readRegularFile, removeFile } from "./RegularFiles.ts"
import { type SessionStore, type StoredSession, unlessReplaced } from "./SessionStore.ts"

/** Bytes; a session has about one thousand. */
const mostBytes = 1_048_576

export interface FileSessionStoreOptions extends FileLockOptions {
  /** The folder of the session files; a relative one starts at the working directory of the construction. */
  readonly directory: string
}

/** What is wrong with a folder; programs without a type checker may pass any value. */
const findProblem = (directory: unknown): SessionStoreError | undefined => {
  const wrong = (
    problem: string,
    hint = "Give directory the path of a folder; check the environment variables that it is made of."
  ) => {
    const message = `The option directory of the file session store ${problem}.`
    return new SessionStoreError({ reason: "misconfigured", message, hint })
  }
  if (typeof directory !== "string") return wrong("is no text")
  const segments = directory.split(/[\\/]/)
  if (directory.trim() === "") return wrong("is empty")
  if (segments[0] === "~")
    return wrong(
      "begins with ~, which only a shell knows",
      'Write join(homedir(), "…"), with homedir of node:os and join of node:path.'
    )
  // An unset variable in a template: credentials in `./undefined` would be shared by all programs with the same mistake.
  const unset = segments.find((segment) => segment === "undefined" || segment === "null")
  return unset === undefined ? undefined : wrong(`has the segment ${unset}`)
}

/** Some systems cannot sync a folder; the durability of the rename is then theirs. */
const syncFolder = async (folder: string): Promise<void> => {
  const handle = await open(folder, "r").catch(ignore)
  await handle?.sync().catch(ignore)
  await handle?.close().catch(ignore)
}

/** The session in a file; undefined without a file, null for a spoiled one. The message of a JSON error would quote credentials. */
const readSession = async (path: string): Promise<object | null | undefined> => {
  const file = await readRegularFile(path, mostBytes)
  if (file === undefined) return undefined
  try {
    const value: unknown = JSON.parse(file.text)
    return isRecord(value) ? value : null
  } catch {
    return null
  }
}

/**
 * Keeps sessions in `directory` (made with mode 0700), one file of mode 0600 for each server and plane, written to the
 * disk before `save` resolves. Processes that name the same directory share one session and one lock. Every failure is a
 * `SessionStoreError` that names the file; a wrong option rejects every use.
 */
export const fileSessionStore = (options: FileSessionStoreOptions): SessionStore => {
  const given: FileSessionStoreOptions = { ...options }
  const problem = findProblem(given.directory)
  // The working directory may have been removed.
  const directory = problem === undefined ? (tried(() => resolve(given.directory)) ?? given.directory) : ""
  const nameOf = (slot: string) => `session-${slot}.json`
  const lock = fileLock((slot) => join(directory, `session-${slot}.lock`), given)

  const named = async <A>(path: string, run: (path: string) => Promise<A>): Promise<A> => {
    if (problem !== undefined) return Promise.reject(problem)
    return run(path).catch((cause) => Promise.reject(storeErrorOf(cause, path)))
  }
  /** Runs with the path of a session; a failure names it. */
  const withFile = <A>(slot: string, run: (path: string) => Promise<A>) =>
    named(join(directory, nameOf(slot)), run)
  const ready = () => named(directory, () => mkdir(directory, { recursive: true, mode: 0o700 }))

  /** Removes temporary files of a crashed save, because they hold credentials. Saves happen under the lock. */
  const clean = async (slot: string): Promise<void> => {
    const left = (await readdir(directory)).filter(
      (name) => name.startsWith(`${nameOf(slot)}.`) && name.endsWith(".tmp")
    )
    await Promise.all(left.map((name) => removeFile(join(directory, name))))
  }

  /** Writes and syncs a file beside the session's and runs `use` with it; a failure removes it. */
  const withTemporary = async (
    slot: string,
    session: StoredSession,
    use: (temporary: string) => Promise<void>
  ): Promise<void> => {
    await ready()
    await clean(slot)
    const temporary = join(directory, `${nameOf(slot)}.${randomUUID()}.tmp`)
    try {
      await writeFile(temporary, `${JSON.stringify(session)}\n`, { flag: "wx", mode: 0o600, flush: true })
      await use(temporary)
    } catch (error) {
      await unlink(temporary).catch(ignore)
      return Promise.reject(error)
    }
  }

  return {
    load: (slot) =>
      withFile(slot, async (path) => {
        const found = await readSession(path)
        return found === null ? Promise.reject(new SessionStoreError({ reason: "corrupt", path })) : found
      }),
    save: (slot, session, replaced) =>
      withFile(slot, async (path) => {
        // A later saver removes the temporary file, so that this one fails between its check and its rename.
        await withTemporary(slot, session, async (temporary) =>
          unlessReplaced(await readSession(path), replaced, () => rename(temporary, path), path)
        )
        await syncFolder(directory)
      }),
    // Everything but the rename, so that a process whose lock was broken never replaces a newer pair.
    probe: (slot, session) => withFile(slot, () => withTemporary(slot, session, unlink)),
    clear: (slot, aside, replaced) =>
      withFile(slot, async (path) => {
        const ended = `${path}.ended`
        const remove = (): Promise<unknown> =>
          aside === true
            ? catchCode("ENOENT", () => rename(path, ended))
            : Promise.all([path, ended].map(removeFile))
        await unlessReplaced(replaced && (await readSession(path)), replaced, remove, path)
        await catchCode("ENOENT", () => clean(slot))
        await syncFolder(directory)
      }),
    watch: (slot, changed) => {
      let watcher: FSWatcher | undefined
      let isOver = false
      const begin = () => {
        if (isOver) return
        watcher = watch(directory, { persistent: false }, (_, file) => {
          if (file === null || file === nameOf(slot)) changed()
        })
        // The folder may be removed: the next call notices what changed.
        watcher.on("error", () => watcher?.close())
      }
      ready().then(begin).catch(ignore)
      return () => {
        isOver = true
        watcher?.close()
      }
    },
    lock: { acquire: (slot, signal) => ready().then(() => lock.acquire(slot, signal)) }
  }
}
