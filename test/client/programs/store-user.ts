// Uses a file session store once and prints the description of the failure.
import { fileSessionStore, type StoredSession } from "../../../client/node.ts"
import { describeStoreFailure } from "../../../client/failures/StoreFailures.ts"

interface Order {
  readonly directory: string
  readonly slot: string
  readonly session: StoredSession
  readonly use: "save" | "probe" | "lock"
}

const { directory, session, slot, use }: Order = JSON.parse(process.argv[2] ?? "")
const store = fileSessionStore({ directory })
const uses = {
  save: () => store.save(slot, session),
  probe: () => store.probe?.(slot, session),
  lock: () => store.lock?.acquire(slot, new AbortController().signal)
}
try {
  await uses[use]()
  process.stdout.write(JSON.stringify("no failure"))
} catch (cause) {
  process.stdout.write(JSON.stringify(describeStoreFailure(cause)))
}
