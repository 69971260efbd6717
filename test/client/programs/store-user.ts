// Uses each part of a file session store that writes, and prints how it failed. Without words: calls with a store that never settles.
import { createMusicClient } from "../../../client/index.ts"
import { fileSessionStore, type StoredSession } from "../../../client/node.ts"

const failureOf = (run: () => Promise<unknown> | undefined) =>
  Promise.resolve(run()).then(
    () => "no failure",
    (error: object) => ({ ...error, message: Reflect.get(error, "message") as unknown })
  )

const useFiles = async (directory: string, text: string) => {
  const session: StoredSession = JSON.parse(text)
  const { slot } = session
  const store = fileSessionStore({ directory })
  const failures = {
    lock: await failureOf(() => store.lock?.acquire(slot, new AbortController().signal)),
    probe: await failureOf(() => store.probe?.(slot, session)),
    save: await failureOf(() => store.save(slot, session))
  }
  process.stdout.write(JSON.stringify(failures))
}

const never = () => new Promise<never>(() => undefined)
const waitForNothing = async () => {
  const sessionStore = { load: never, save: never, clear: never }
  const baseUrl = "http://127.0.0.1:1"
  const options = {
    baseUrl,
    source: "cli",
    telemetry: false,
    deadlineMilliseconds: 200,
    sessionStore
  } as const
  process.stdout.write(`${(await createMusicClient(options).me()).error?.code}\n`)
}

const [directory, text = ""] = process.argv.slice(2)
void (directory === undefined ? waitForNothing() : useFiles(directory, text))
