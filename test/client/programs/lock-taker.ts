// Takes the lock of a folder and holds it until it is killed (a thread: until a message); or takes it again and again and saves a session each
// time. Prints a line when it holds the lock or has saved.
import { once } from "node:events"
import { setTimeout as sleep } from "node:timers/promises"
import { parentPort, workerData } from "node:worker_threads"
import { fileSessionStore, type StoredSession } from "../../../client/node.ts"

interface Order {
  readonly directory: string
  readonly slot: string
  readonly deadlineMilliseconds: number
  /** Saved again and again when present. */
  readonly session?: StoredSession
}

const order: Order = workerData ?? JSON.parse(process.argv[2] ?? "")
const { deadlineMilliseconds, session, slot } = order
const store = fileSessionStore(order)

do {
  const release = await store.lock?.acquire(slot, AbortSignal.timeout(deadlineMilliseconds))
  if (session !== undefined) {
    await store.probe?.(slot, session)
    await store.save(slot, session)
    process.stdout.write("saved\n")
  } else if (parentPort === null) {
    process.stdout.write("held\n")
    await sleep(deadlineMilliseconds)
  } else {
    parentPort.postMessage("held")
    await once(parentPort, "message")
  }
  await release?.()
} while (session !== undefined)
