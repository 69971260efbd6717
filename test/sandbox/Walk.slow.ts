/** The exit code of the scenario, as the processes that the documents name. */
import { execFileSync } from "node:child_process"
import { beforeAll, describe, expect, it } from "vitest"
import { root, start } from "../world/Fleet.ts"

beforeAll(() => {
  execFileSync(process.execPath, ["scripts/build.mjs", "--if-needed"], { cwd: root })
})

/** Makes the first step of the scenario fail: its requests do not reach the server. */
const unreachable = "data:text/javascript,globalThis.fetch=async()=>new Response('',{status:500})"

const walk = async (parameters: ReadonlyArray<string>) => {
  const running = start(process.execPath, [...parameters, "--walk"], {})
  const { code } = await running.ended
  return { code, output: running.output() }
}

describe.each([
  ["npm run sandbox -- --walk", ["--import", "tsx", "sandbox/main.ts"]],
  ["music-backend sandbox --walk", ["dist/cli.js", "sandbox"]]
])("%s", (_, parameters) => {
  it("exits with 0 when every step has passed", async () => {
    const { code, output } = await walk(parameters)
    expect(output).toMatch(/^All \d+ steps passed\.$/m)
    expect(code).toBe(0)
  })

  it("exits with 1 when a step fails", async () => {
    const { code, output } = await walk(["--import", unreachable, ...parameters])
    expect(output).toMatch(/^✗ {2}1 /m)
    expect(output).toMatch(/^The scenario failed\.$/m)
    expect(code).toBe(1)
  })
})
