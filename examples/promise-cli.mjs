#!/usr/bin/env node
// A command line on the promise client. Its session lies in $SILICON_HOME/music, shared with the daemon beside it.
//
//   export MUSIC_URL=http://127.0.0.1:8787
//   node examples/promise-cli.mjs login <short-lived token>
//   node examples/promise-cli.mjs status | ting <name> | report <text> | logout
//
// MUSIC_TEST_APP_SECRET selects a testing plane; MUSIC_PATIENCE is how many milliseconds a call may take, with its
// retries (30,000). Exit codes: 0 done, 1 refused, 2 usage, 5 cannot tell now.
import { homedir } from "node:os"
import { join } from "node:path"
import { createMusicClient } from "music-backend/client"
import { fileSessionStore } from "music-backend/client/node"

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
  // Present means testing, whatever is in it: never hand an unset variable over as one.
  ...(MUSIC_TEST_APP_SECRET === undefined ? {} : { testingKey: MUSIC_TEST_APP_SECRET }),
  ...(SILICON_ORG === undefined ? {} : { org: SILICON_ORG })
})

const print = (value) => process.stdout.write(`${JSON.stringify(value, null, 2)}\n`)

/** Prints a result and says how the program ends. */
const told = (result) => {
  if (result.ok) {
    print(result.value ?? { done: true })
    return 0
  }
  const { code, hint, message, requestId, retryable } = result.error
  process.stderr.write(`${code}: ${message}\n${hint}${requestId === null ? "" : ` (${requestId})`}\n`)
  return retryable ? 5 : 1
}

const commands = {
  login: (slt = "") => client.login(slt).then(told),
  status: async () => {
    const status = await client.status()
    if (status.state === "unknown") return told({ ok: false, error: status.error })
    print(status.state === "authenticated" ? status.me : { authenticated: false })
    return 0
  },
  ting: async (name = "hello") => {
    const session = await client.session()
    if (!session.ok || session.value === null) return told(await client.me())
    const key = `${session.value.actor.public_id}/${name}`
    return told(await client.ting({ type: "music.trigger.fired", key, data: { name } }))
  },
  report: (...words) => client.report({ message: words.join(" ") }).then(told),
  logout: () => client.logout().then(told)
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
