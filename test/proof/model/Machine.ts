/** The session store of one machine: it outlives its programs, and programs of one machine share it. */
import { SessionStoreError } from "../../../client/failures/StoreFailures.ts"
import type { SessionStore, StoredSession } from "../../../client/stores/SessionStore.ts"

/** The program that uses the store. */
export interface StoreUser {
  readonly isAlive: () => boolean
  /** What happens to the next save; it is over then. */
  readonly takeSaveFault: () => "fails" | "killed before" | "killed after" | undefined
  readonly kill: () => void
}

interface Waiting {
  readonly user: StoreUser
  readonly grant: () => void
}

export interface Machine {
  /** The stored session of each slot. */
  readonly slots: ReadonlyMap<string, StoredSession>
  readonly storeFor: (user: StoreUser) => SessionStore
  /** The operating system ends what a dead program holds. */
  readonly release: (user: StoreUser) => void
}

/** What a dead program waits for. */
const never = <A>() => new Promise<A>(() => undefined)

export const makeMachine = (): Machine => {
  const slots = new Map<string, StoredSession>()
  /** By slot: the holder of the lock and those that wait for it. */
  const queues = new Map<string, Array<Waiting>>()

  const leave = (slot: string, waiting: Waiting): void => {
    const queue = queues.get(slot) ?? []
    const first = queue[0]
    queues.set(
      slot,
      queue.filter((other) => other !== waiting)
    )
    if (first === waiting) queues.get(slot)?.[0]?.grant()
  }

  const acquire = (user: StoreUser, slot: string, signal: AbortSignal) =>
    new Promise<() => Promise<void>>((resolve, reject) => {
      const waiting: Waiting = {
        user,
        grant: () =>
          resolve(() => {
            leave(slot, waiting)
            return Promise.resolve()
          })
      }
      signal.addEventListener("abort", () => {
        leave(slot, waiting)
        reject(signal.reason)
      })
      const queue = [...(queues.get(slot) ?? []), waiting]
      queues.set(slot, queue)
      if (queue.length === 1) waiting.grant()
    })

  const storeFor: Machine["storeFor"] = (user) => {
    const whileAlive = <A>(run: () => Promise<A>): Promise<A> => (user.isAlive() ? run() : never())
    return {
      load: (slot) => whileAlive(() => Promise.resolve(slots.get(slot))),
      save: (slot, session, replaced) =>
        whileAlive(() => {
          const fault = user.takeSaveFault()
          if (fault === "fails") return Promise.reject(new SessionStoreError({ reason: "no_space" }))
          if (fault === "killed before") {
            user.kill()
            return never()
          }
          if (replaced !== undefined && (slots.get(slot)?.refresh_token ?? null) !== replaced)
            return Promise.reject(new SessionStoreError({ reason: "locked" }))
          slots.set(slot, session)
          if (fault === undefined) return Promise.resolve()
          user.kill()
          return never()
        }),
      clear: (slot) =>
        whileAlive(() => {
          slots.delete(slot)
          return Promise.resolve()
        }),
      probe: () => whileAlive(() => Promise.resolve()),
      lock: { acquire: (slot, signal) => whileAlive(() => acquire(user, slot, signal)) }
    }
  }

  return {
    slots,
    storeFor,
    release: (user) => {
      for (const [slot, queue] of queues)
        for (const waiting of queue) if (waiting.user === user) leave(slot, waiting)
    }
  }
}
