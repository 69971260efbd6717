/** A session store for Node: one private file for each slot, replaced atomically, with a lock between processes. */
import { randomUUID } from "node:crypto"
import { mkdir, open, readdir, readFile, rename, unlink } from "node:fs/promises"
import { join } from "node:path"
import { type FileLockOptions, fileLock } from "./FileLock.ts"
import type { SessionStore, StoredSession } from "./SessionStore.ts"

const isMissing = (error: unknown): boolean =>
  typeof error === "object" && error !== null && "code" in error && error.code === "ENOENT"

const whenMissing =
  <A>(instead: A) =>
  (error: unknown): Promise<A> =>
    isMissing(error) ? Promise.resolve(instead) : Promise.reject(error)

/** Some systems cannot sync a folder; the durability of the rename is then theirs. */
const syncFolder = async (folder: string): Promise<void> => {
  const handle = await open(folder, "r").catch(() => undefined)
  await handle?.sync().catch(() => undefined)
  await handle?.close()
}

/**
 * Keeps sessions in `directory` (made with mode 0700), one file of mode 0600 for each server and plane, written to the
 * disk before `save` resolves. Processes that name the same directory share one session and one lock.
 */
export const fileSessionStore = (options: { readonly directory: string } & FileLockOptions): SessionStore => {
  const { directory } = options
  const nameOf = (slot: string) => `session-${slot}.json`
  const pathOf = (slot: string) => join(directory, nameOf(slot))
  const ready = () => mkdir(directory, { recursive: true, mode: 0o700 })
  const lock = fileLock((slot) => join(directory, `session-${slot}.lock`), options)

  /** Removes temporary files of a crashed save, because they hold credentials. Saves happen under the lock. */
  const clean = async (slot: string): Promise<void> => {
    const left = (await readdir(directory)).filter(
      (name) => name.startsWith(`${nameOf(slot)}.`) && name.endsWith(".tmp")
    )
    await Promise.all(left.map((name) => unlink(join(directory, name)).catch(whenMissing(undefined))))
  }

  /** Writes and syncs a file beside the session's; a failure removes it. */
  const writeTemporary = async (slot: string, session: StoredSession): Promise<string> => {
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
    } catch (error) {
      await unlink(temporary).catch(() => undefined)
      return Promise.reject(error)
    }
    return temporary
  }

  return {
    load: async (slot) => {
      const text = await readFile(pathOf(slot), "utf8").catch(whenMissing(undefined))
      return text === undefined ? undefined : JSON.parse(text)
    },
    save: async (slot, session) => {
      await rename(await writeTemporary(slot, session), pathOf(slot))
      await syncFolder(directory)
    },
    // Everything but the rename, so that a process whose lock was broken never replaces a newer pair.
    probe: async (slot, session) => unlink(await writeTemporary(slot, session)),
    clear: async (slot) => {
      await unlink(pathOf(slot)).catch(whenMissing(undefined))
      await clean(slot).catch(whenMissing(undefined))
      await syncFolder(directory)
    },
    lock: {
      acquire: async (slot, signal) => {
        await ready()
        return lock.acquire(slot, signal)
      }
    }
  }
}
