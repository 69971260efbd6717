/** The session store of one machine: it outlives its programs, and programs of one machine share it. */
import { SessionStoreError } from "../../../client/failures/StoreFailures.ts"
import { processLock, type SessionStore, type StoredSession } from "../../../client/stores/SessionStore.ts"

/** The program that uses the store. */
export interface StoreUser {
  /** Aborted when the program dies. */
  readonly end: AbortSignal
  /** What happens to the next save; it is over then. */
  readonly takeSaveFault: () => "save fails" | "killed before save" | "killed after save" | undefined
  readonly kill: () => void
}

export interface Machine {
  /** The stored session of each slot. */
  readonly slots: ReadonlyMap<string, StoredSession>
  readonly storeFor: (user: StoreUser) => SessionStore
}

/** What a dead program waits for. */
export const never = <A>() => new Promise<A>(() => undefined)

export const makeMachine = (): Machine => {
  const slots = new Map<string, StoredSession>()
  const { acquire } = processLock()

  const storeFor: Machine["storeFor"] = (user) => {
    const whileAlive = async <A>(run: () => A | Promise<A>): Promise<A> =>
      user.end.aborted ? never<A>() : run()
    return {
      load: (slot) => whileAlive(() => slots.get(slot)),
      save: (slot, session, replaced) =>
        whileAlive(() => {
          const fault = user.takeSaveFault()
          if (fault === "save fails") throw new SessionStoreError({ reason: "no_space" })
          if (fault === "killed before save") {
            user.kill()
            return never<void>()
          }
          if (replaced !== undefined && (slots.get(slot)?.refresh_token ?? null) !== replaced)
            throw new SessionStoreError({ reason: "locked" })
          slots.set(slot, session)
          if (fault === undefined) return undefined
          user.kill()
          return never<void>()
        }),
      clear: (slot) => whileAlive(() => void slots.delete(slot)),
      probe: () => whileAlive(() => undefined),
      lock: {
        acquire: (slot, signal) =>
          whileAlive(async () => {
            const release = await acquire(slot, AbortSignal.any([signal, user.end]))
            // The operating system ends what a dead program holds.
            if (user.end.aborted) await release()
            else user.end.addEventListener("abort", () => void release(), { once: true })
            return release
          })
      }
    }
  }

  return { slots, storeFor }
}
