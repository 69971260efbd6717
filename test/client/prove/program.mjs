// One program with a session in a folder: makes a call, and kills itself at a step of the refresh.
import { createMusicClient } from "music-client"
import { fileSessionStore } from "music-client/node"

const { baseUrl, directory, step } = JSON.parse(process.argv[2])
const inner = fileSessionStore({ directory })

const die = () => process.kill(process.pid, "SIGKILL")
/** Dies before or after a part of a refresh. */
const around =
  (part, run) =>
  async (...given) => {
    if (step === `before ${part}`) die()
    // A save consists of several writes.
    if (step === `during ${part}`) setTimeout(die, Math.random() * 6)
    const value = await run(...given)
    if (step === `after ${part}`) die()
    return value
  }
const acquire = async (...given) => around("release", await inner.lock.acquire(...given))
const client = createMusicClient({
  baseUrl,
  source: "cli",
  telemetry: false,
  fetch: (url, init) => (url.endsWith("/refresh") ? around("request", fetch)(url, init) : fetch(url, init)),
  sessionStore: {
    load: around("load", inner.load),
    save: around("save", inner.save),
    clear: inner.clear,
    probe: around("probe", inner.probe),
    lock: { acquire: around("lock", acquire) }
  }
})
await client.me()
