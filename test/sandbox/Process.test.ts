/** The sandbox as a person starts it: a process of its own. */
import { createServer, type Server } from "node:net"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { start } from "../world/Fleet.ts"

const sandbox = (...parameters: ReadonlyArray<string>) =>
  start(process.execPath, ["--import", "tsx", "sandbox/main.ts", ...parameters], {})

/** Holds the port that the sandbox asks for first, unless another program does. */
let holder: Server
beforeAll(
  () =>
    new Promise<void>((resolve) => {
      holder = createServer().on("error", () => resolve())
      holder.listen(8787, "127.0.0.1", () => resolve())
    })
)
afterAll(() => new Promise<void>((resolve) => holder.close(() => resolve())))

describe("npm run sandbox", () => {
  it("prints each line of the log once, also when its first port is taken", async () => {
    const { child, ended, output, says } = sandbox("--debug")
    try {
      const [, base = ""] = await says(/BASE=(http:\/\/127\.0\.0\.1:\d+)/)
      expect(base).not.toBe("http://127.0.0.1:8787")
      await fetch(`${base}/api/v1/version`)
      await says(/"route":"\/api\/v1\/version"/)
      child.kill("SIGTERM")
      expect(await ended).toEqual({ code: 0, signal: null })
      const lines = output()
        .split("\n")
        .filter((line) => line.startsWith("{"))
      expect(lines.filter((line, at) => lines.indexOf(line) !== at)).toEqual([])
      expect(lines.filter((line) => line.includes('"Listening"'))).toHaveLength(1)
    } finally {
      child.kill("SIGKILL")
    }
  })

  it.each([
    [["--help"], 0],
    [["--wlak"], 64],
    [["--help", "--wlak"], 64]
  ])("shows its options at %j, and exits with %i", async (flags, code) => {
    const { ended, output } = sandbox(...flags)
    expect(await ended).toEqual({ code, signal: null })
    expect(output()).toMatch(/^Usage: /)
  })
})
