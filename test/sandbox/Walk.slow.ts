/** The exit code of the scenario, as the process that the documents name. The sandbox of a clone is walked by .ci/run. */
import { execFileSync } from "node:child_process"
import { beforeAll, expect, it } from "vitest"
import { root, start } from "../world/Fleet.ts"

beforeAll(() => {
  execFileSync(process.execPath, ["scripts/build.mjs", "--if-needed"], { cwd: root })
})

/** Makes the first step of the scenario fail: its requests do not reach the server. */
const unreachable = "data:text/javascript,globalThis.fetch=async()=>new Response('',{status:500})"

it.each([
  [0, /^All \d+ steps passed\.$/m, ["dist/cli.js", "sandbox"]],
  [1, /^The scenario failed\.$/m, ["--import", unreachable, "dist/cli.js", "sandbox"]]
])("exits with %i and says %s: %s", async (expected, last, parameters) => {
  const { ended, output } = start(process.execPath, [...parameters, "--walk"], {})
  expect((await ended).code).toBe(expected)
  expect(output()).toMatch(last)
})

it("of a clone says at a misspelt option which it is, and exits with 64", async () => {
  const words = ["--import", "tsx", "src/cli/main.ts", "sandbox", "--wlak"]
  const { ended, output } = start(process.execPath, words, {})
  expect(await ended).toEqual({ code: 64, signal: null })
  expect(output()).toMatch(/'--wlak'/)
})
