/** Runs the commands of the documents that need no server beside them. */
import { execFileSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { beforeAll, expect, it } from "vitest"
import { version } from "../../src/schema/Release.ts"
import { root } from "../support/Process.ts"
import { scriptOf } from "./Blocks.ts"
import { run } from "./Shell.ts"

beforeAll(() => {
  execFileSync(process.execPath, ["scripts/build.mjs", "--if-needed"], { cwd: root })
})

const clone = { folder: root, environment: {} }

it("one test file runs alone", async () => {
  expect((await run(scriptOf("CONTRIBUTING.md: Tests"), clone)).out).toMatch(/Test Files +1 passed/)
})

it("npx finds the command line where the package is installed", async () => {
  const folder = mkdtempSync(join(tmpdir(), "music-consumer-"))
  try {
    mkdirSync(join(folder, "node_modules/.bin"), { recursive: true })
    symlinkSync(root, join(folder, "node_modules/music-backend"))
    symlinkSync("../music-backend/dist/cli.js", join(folder, "node_modules/.bin/music-backend"))
    const script = scriptOf("cli.md: The operator's command line")
    const { out } = await run(script, { folder, environment: {}, instead: { "<command>": "version" } })
    expect(out).toContain(version)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

it("the benchmark counts operations, and shows where those of a call are", async () => {
  const script = scriptOf("performance.md: Performance")
  const { out } = await run(script, clone)
  expect(out).toMatch(/^\| healthz \| \d+ \|/m)
  expect(out).toMatch(/^ +\d+ +src\/\S+\.ts:\d+$/m)
})

it("a suite of proof plays a short run", async () => {
  const script = scriptOf("proof.md: Proof")
  expect((await run(script, clone)).out).toMatch(/\| held \|$/m)
})
