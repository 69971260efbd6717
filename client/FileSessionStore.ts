/** A session store for Node: one private file a slot, replaced atomically, with a lock that processes share. */
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

/** Some systems cannot sync a folder; there the rename is as durable as they make it. */
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

  /** What a crash in the middle of a save left behind holds credentials too. Saves happen under the lock. */
  const clean = async (slot: string): Promise<void> => {
    const left = (await readdir(directory)).filter(
      (name) => name.startsWith(`${nameOf(slot)}.`) && name.endsWith(".tmp")
    )
    await Promise.all(left.map((name) => unlink(join(directory, name)).catch(whenMissing(undefined))))
  }

  /** A file beside the session's, on the disk when this resolves; one that failed leaves nothing behind. */
  const written = async (slot: string, session: StoredSession): Promise<string> => {
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
      await rename(await written(slot, session), pathOf(slot))
      await syncFolder(directory)
    },
    // Everything but the rename, so that a holder of the lock that overslept takes nobody's newer pair away.
    probe: async (slot, session) => unlink(await written(slot, session)),
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
