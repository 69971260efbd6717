#!/usr/bin/env node
// A command line on the promise client. Its session is stored in $SILICON_HOME/music and shared with the daemon.
//
//   npm ci && npm run build:client      # in a clone of the repository; elsewhere: npm install <clone>/dist/music-client-*.tgz
//   node examples/promise-cli.mjs login <short-lived token>
//   node examples/promise-cli.mjs status | ting <name> | report <text> | logout | forget
//
// MUSIC_URL is the service (http://127.0.0.1:8787, where the sandbox runs). MUSIC_TEST_APP_SECRET selects a testing plane.
// MUSIC_PATIENCE is the deadline of a call with its retries, in milliseconds (30000). Exit codes: 0 done, 1 refused, 2 usage,
// 5 an outage: retry later.
import { homedir } from "node:os"
import { join } from "node:path"
import { createMusicClient } from "music-client"
import { fileSessionStore } from "music-client/node"
import { createTelemetry } from "music-client/telemetry"

/** The value of a variable; an empty one counts as unset, so that no credential is stored in `./music`. */
const setting = (name) => process.env[name] || undefined

const patience = setting("MUSIC_PATIENCE")
const testingKey = process.env.MUSIC_TEST_APP_SECRET
const org = setting("SILICON_ORG")

const inform = (text) => process.stderr.write(`${text}\n`)

/** What happens between call and result. */
const onEvent = (event) => {
  switch (event.type) {
    case "retry":
      return inform(`${event.error.message} Retrying in ${Math.ceil(event.pauseMilliseconds / 1000)} s …`)
    case "session_healed":
      return inform("The stored session could not be read; it is gone now.")
    case "outdated":
      return inform(`This version is too old for the service: update to ${event.minVersion} or later.`)
  }
}

const client = createMusicClient({
  baseUrl: setting("MUSIC_URL") ?? "http://127.0.0.1:8787",
  source: "cli",
  telemetry: process.env.MUSIC_TELEMETRY !== "off",
  sessionStore: fileSessionStore({
    directory: join(setting("SILICON_HOME") ?? join(homedir(), ".silicon"), "music")
  }),
  onEvent,
  // A text that is no number is refused by every call, with the option's name.
  ...(patience === undefined ? {} : { deadlineMilliseconds: Number(patience) }),
  // Any value selects testing, also an empty one: an unset variable must not be passed.
  ...(testingKey === undefined ? {} : { testingKey }),
  ...(org === undefined ? {} : { org })
})

const telemetry = createTelemetry(client)

const print = (value) => process.stdout.write(`${JSON.stringify(value, null, 2)}\n`)

/** Prints a result and returns the exit code. */
const printResult = (result) => {
  if (result.ok) {
    print(result.value)
    return 0
  }
  const { code, hint, message, requestId, retryable } = result.error
  inform(`${message}\n${hint} (${code}${requestId === null ? "" : `, ${requestId}`})`)
  return retryable ? 5 : 1
}

const commands = {
  // The client derives the key of a login from the token: the same command again is the same login.
  login: (slt = "") => client.login(slt).then(printResult),
  status: async () => {
    const status = await client.status()
    if (status.state === "unknown") return printResult({ ok: false, error: status.error })
    print(status.state === "authenticated" ? status.me : { authenticated: false, reason: status.reason })
    return 0
  },
  // The name is the key: the same command again sends nothing new.
  ting: (name = "hello") =>
    client.ting({ type: "music.trigger.fired", key: name, data: { name } }).then(printResult),
  report: (...words) => client.report({ message: words.join(" ") }).then(printResult),
  logout: () => client.logout().then(printResult),
  forget: () => client.logout({ forget: true }).then(printResult)
}

const [name = "", ...words] = process.argv.slice(2)
const command = Object.hasOwn(commands, name) ? commands[name] : undefined
if (command === undefined) {
  inform(`usage: promise-cli.mjs ${Object.keys(commands).join(" | ")}`)
  process.exitCode = 2
} else {
  telemetry.record("musicclidaemon", { type: "cli.command.run", data: { command: name } })
  process.exitCode = await command(...words)
}
await client.close()
