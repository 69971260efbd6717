// Takes the lock of a folder and holds it until it is killed; or takes it again and again and saves a session each time. Prints a line
// when it holds the lock or has saved.
import { setTimeout as sleep } from "node:timers/promises"
import { fileSessionStore, type StoredSession } from "../../../client/node.ts"

interface Order {
  readonly directory: string
  readonly slot: string
  readonly deadlineMilliseconds: number
  /** Saved again and again when present. */
  readonly session?: StoredSession
}

const order: Order = JSON.parse(process.argv[2] ?? "")
const { deadlineMilliseconds, session, slot } = order
const store = fileSessionStore(order)

/** A function, because a bundle in CommonJS cannot wait at its top. */
const main = async () => {
  do {
    const release = await store.lock?.acquire(slot, AbortSignal.timeout(deadlineMilliseconds))
    if (session !== undefined) await store.save(slot, session)
    process.stdout.write("held or saved\n")
    if (session === undefined) await sleep(deadlineMilliseconds)
    await release?.()
  } while (session !== undefined)
}

void main()
