// Takes the lock of a folder, prints a line, and holds the lock until it is killed.
import { setTimeout as sleep } from "node:timers/promises"
import { fileSessionStore } from "../../../client/node.ts"

interface Order {
  readonly directory: string
  readonly slot: string
  readonly deadlineMilliseconds: number
}

const order: Order = JSON.parse(process.argv[2] ?? "")

/** A function, because a bundle in CommonJS cannot wait at its top. */
const main = async () => {
  await fileSessionStore(order).lock?.acquire(order.slot, AbortSignal.timeout(order.deadlineMilliseconds))
  process.stdout.write("held\n")
  await sleep(order.deadlineMilliseconds)
}

void main()
