// Uses the lock of a folder: takes it once within a deadline and holds it for a while (a thread: until a message), or takes it again and again and saves a
// session each time, until it is killed. Prints a line when it holds the lock, or the name of the failure.
import { once } from "node:events"
import { setTimeout as sleep } from "node:timers/promises"
import { parentPort, workerData } from "node:worker_threads"
import { fileSessionStore, type StoredSession } from "../../../client/node.ts"

interface Order {
  readonly directory: string
  readonly slot: string
  readonly staleMilliseconds?: number
  readonly deadlineMilliseconds: number
  readonly holdMilliseconds: number
  /** Saved again and again when present. */
  readonly session?: StoredSession
}

const order: Order = workerData ?? JSON.parse(process.argv[2] ?? "")
const store = fileSessionStore(order)
const print = (text: string) =>
  parentPort === null ? process.stdout.write(`${text}\n`) : parentPort.postMessage(text)

const takeOnce = async () => {
  const release = await store.lock?.acquire(order.slot, AbortSignal.timeout(order.deadlineMilliseconds))
  print("held")
  if (parentPort === null) await sleep(order.holdMilliseconds)
  else await once(parentPort, "message")
  await release?.()
}

try {
  const { session } = order
  if (session === undefined) await takeOnce()
  else
    for (;;) {
      const release = await store.lock?.acquire(order.slot, AbortSignal.timeout(order.deadlineMilliseconds))
      await store.probe?.(order.slot, session)
      await store.save(order.slot, session)
      await release?.()
      print("saved")
    }
} catch (error) {
  print(error instanceof Error ? error.name : String(error))
}
