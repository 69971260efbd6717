#!/usr/bin/env node
// A command line on the promise client. Its session is stored in $SILICON_HOME/music and shared with the daemon.
//
//   npm ci && npm run build:client      # in a clone of the repository; elsewhere: npm install music-client
//   export MUSIC_URL=http://127.0.0.1:8787
//   node examples/promise-cli.mjs login <short-lived token>
//   node examples/promise-cli.mjs status | ting <name> | report <text> | logout
//
// MUSIC_TEST_APP_SECRET selects a testing plane; MUSIC_PATIENCE is the deadline of a call with its retries, in
// milliseconds (30,000). Exit codes: 0 done, 1 refused, 2 usage, 5 an outage: retry later.
import { homedir } from "node:os"
import { join } from "node:path"
import { createMusicClient } from "music-client"
import { fileSessionStore } from "music-client/node"

const {
  MUSIC_PATIENCE = "30000",
  MUSIC_TEST_APP_SECRET,
  MUSIC_URL = "http://127.0.0.1:8787",
  SILICON_HOME,
  SILICON_ORG
} = process.env

const client = createMusicClient({
  baseUrl: MUSIC_URL,
  source: "cli",
  telemetry: process.env.MUSIC_TELEMETRY !== "off",
  deadlineMilliseconds: Number(MUSIC_PATIENCE),
  sessionStore: fileSessionStore({ directory: join(SILICON_HOME ?? join(homedir(), ".silicon"), "music") }),
  // Any value selects testing, so an unset variable must not be passed.
  ...(MUSIC_TEST_APP_SECRET === undefined ? {} : { testingKey: MUSIC_TEST_APP_SECRET }),
  ...(SILICON_ORG === undefined ? {} : { org: SILICON_ORG })
})

const print = (value) => process.stdout.write(`${JSON.stringify(value, null, 2)}\n`)

/** Prints a result and returns the exit code. */
const printResult = (result) => {
  if (result.ok) {
    print(result.value ?? { done: true })
    return 0
  }
  const { code, hint, message, requestId, retryable } = result.error
  process.stderr.write(`${code}: ${message}\n${hint}${requestId === null ? "" : ` (${requestId})`}\n`)
  return retryable ? 5 : 1
}

const commands = {
  login: (slt = "") => client.login(slt).then(printResult),
  status: async () => {
    const status = await client.status()
    if (status.state === "unknown") return printResult({ ok: false, error: status.error })
    print(status.state === "authenticated" ? status.me : { authenticated: false })
    return 0
  },
  ting: async (name = "hello") => {
    const session = await client.session()
    if (!session.ok || session.value === null) return printResult(await client.me())
    const key = `${session.value.actor.public_id}/${name}`
    return printResult(await client.ting({ type: "music.trigger.fired", key, data: { name } }))
  },
  report: (...words) => client.report({ message: words.join(" ") }).then(printResult),
  logout: () => client.logout().then(printResult)
}

const [name = "", ...words] = process.argv.slice(2)
const command = Object.hasOwn(commands, name) ? commands[name] : undefined
if (command === undefined) {
  process.stderr.write(`usage: promise-cli.mjs ${Object.keys(commands).join(" | ")}\n`)
  process.exitCode = 2
} else {
  client.telemetry.record("musicclidaemon", { type: "cli.command.run", data: { command: name } })
  process.exitCode = await command(...words)
}
await client.close()
