// Uses each part of a file session store that writes, and prints how it failed.
import { fileSessionStore, type StoredSession } from "../../../client/node.ts"

const [directory = "", text = ""] = process.argv.slice(2)
const session: StoredSession = JSON.parse(text)
const { slot } = session
const store = fileSessionStore({ directory })

const failureOf = (run: () => Promise<unknown> | undefined) =>
  Promise.resolve(run()).then(
    () => "no failure",
    (error: object) => ({ ...error, message: Reflect.get(error, "message") as unknown })
  )

const failures = {
  lock: await failureOf(() => store.lock?.acquire(slot, new AbortController().signal)),
  probe: await failureOf(() => store.probe?.(slot, session)),
  save: await failureOf(() => store.save(slot, session))
}
process.stdout.write(JSON.stringify(failures))
