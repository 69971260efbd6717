/** The exit code of a scenario that fails, as the process that the documents name. The one that succeeds is a step of .ci/run. */
import { beforeAll, expect, it } from "vitest"
import { build, start } from "../world/Fleet.ts"

beforeAll(build)

/** Makes the first step of the scenario fail: its requests do not reach the server. */
const unreachable = "data:text/javascript,globalThis.fetch=async()=>new Response('',{status:500})"

it("exits with 1 and says so", async () => {
  const parameters = ["--import", unreachable, "dist/cli.js", "sandbox", "--walk"]
  const { ended, output } = start(process.execPath, parameters, {})
  expect((await ended).code).toBe(1)
  expect(output()).toMatch(/^The scenario failed\.$/m)
})
