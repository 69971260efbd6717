/** The sandbox as a person starts it: a process of its own. */
import { once } from "node:events"
import { createServer } from "node:net"
import { afterAll, beforeAll, expect, it } from "vitest"
import { build, kill, start } from "../world/Fleet.ts"

/** The bundle. The sandbox of a clone is walked by .ci/run. */
const sandbox = ["dist/cli.js", "sandbox"]

/** Below the ports that a system hands out by itself. */
const first = 20_000 + (process.pid % 1_000) * 10

/** Holds the port that the sandbox asks for first. A program that looks for a server there must not hold it open. */
const holder = createServer((socket) => socket.destroy())
beforeAll(build)
beforeAll(() => once(holder.listen(first, "127.0.0.1"), "listening"))
afterAll(() => void holder.close())

it("The sandbox shows its guide and its page, and each line of the log once, also when its first port is taken", async () => {
  const running = start(process.execPath, [...sandbox, "--debug", "--port", String(first)], {})
  const { child, ended, output, says } = running
  try {
    const [, consoleUrl] = await says(/^Open (http:\/\/127\.0\.0\.1:\d+) /m)
    const variables = /BASE=(http:\S+:\d+); IAM=http:\S+:(\d+); TING=http:\S+:(\d+)/
    const [, base = "", iam, ting] = await says(variables)
    // The taken port is replaced, and the others follow it as they would.
    expect(base).not.toContain(String(first))
    expect([consoleUrl?.split(":")[2], iam, ting]).toEqual([first + 1, first + 2, first + 3].map(String))
    expect((await (await fetch(`${consoleUrl}/console.js`)).text()).length).toBeGreaterThan(1_000)
    await fetch(`${base}/api/v1/version`)
    await says(/"route":"\/api\/v1\/version"/)
    // A tab that stays open does not keep it running.
    expect((await fetch(`${consoleUrl}/events`)).status).toBe(200)
    child.kill("SIGTERM")
    expect(await ended).toEqual({ code: 0, signal: null })
    const lines = output()
      .split("\n")
      .filter((line) => line.startsWith("{"))
    expect(lines.filter((line, at) => lines.indexOf(line) !== at)).toEqual([])
    expect(lines.filter((line) => line.includes('"Listening"'))).toHaveLength(1)
  } finally {
    await kill(running)
  }
})
