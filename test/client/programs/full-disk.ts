// Runs the operations of a file session store that write to the disk, and prints how each one failed.
import { readdirSync } from "node:fs"
import { fileSessionStore, type StoredSession } from "../../../client/node.ts"

const [directory = ""] = process.argv.slice(2)
const store = fileSessionStore({ directory })
const [name = ""] = readdirSync(directory)
const slot = name.replace(/^session-|\.json$/g, "")

const codeOf = (run: () => Promise<unknown> | undefined) =>
  Promise.resolve(run()).then(
    () => "done",
    (error: unknown) => (error instanceof Error && "code" in error ? error.code : String(error))
  )

const session = (await store.load(slot)) as StoredSession
const lock = await codeOf(() => store.lock?.acquire(slot, new AbortController().signal))
const probe = await codeOf(() => store.probe?.(slot, session))
const save = await codeOf(() => store.save(slot, session))
const loaded = (await store.load(slot)) !== undefined
process.stdout.write(JSON.stringify({ lock, probe, save, loaded }))
