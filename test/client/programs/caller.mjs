// One of several programs that share a session: calls `me` many times at once and prints the results.
// With "die", it is killed right before the new pair is saved.
import { pathToFileURL } from "node:url"

const { bundles, baseUrl, directory, die } = JSON.parse(process.argv[2])
const { createMusicClient } = await import(pathToFileURL(`${bundles}/index.js`).href)
const { fileSessionStore } = await import(pathToFileURL(`${bundles}/node.js`).href)

const files = fileSessionStore({ directory })
const sessionStore = die ? { ...files, save: () => process.kill(process.pid, "SIGKILL") } : files
const client = createMusicClient({ baseUrl, source: "cli", telemetry: false, sessionStore })

const results = await Promise.all(Array.from({ length: 8 }, () => client.me()))
process.stdout.write(JSON.stringify(results.map((result) => (result.ok ? "ok" : result.error.code))))
