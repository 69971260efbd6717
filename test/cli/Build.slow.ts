import { execFile } from "node:child_process"
import { copyFile, mkdir, mkdtemp, rm, symlink } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { version } from "../../src/schema/Release.ts"
import { root } from "../support/Process.ts"

const run = promisify(execFile)

let folder: string

/** A separate package, whose `dist` no other test uses. */
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "music-build-"))
  await copyFile(join(root, "package.json"), join(folder, "package.json"))
  for (const name of ["src", "client", "sandbox"]) await symlink(join(root, name), join(folder, name))
  await symlink(join(root, "node_modules"), join(folder, "node_modules"))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const build = () => run(process.execPath, [join(root, "scripts/build.mjs")], { cwd: folder })

/** Another package in which this one is installed, as npm links it. */
const installed = async (): Promise<string> => {
  const consumer = join(folder, "consumer")
  await mkdir(join(consumer, "node_modules/.bin"), { recursive: true })
  await symlink(folder, join(consumer, "node_modules/music-backend"))
  await symlink("../music-backend/dist/cli.js", join(consumer, "node_modules/.bin/music-backend"))
  return consumer
}

describe("The bundle of the command line", () => {
  it("runs through its link after a build, and with npx after a rebuild", { timeout: 120_000 }, async () => {
    const consumer = await installed()
    // npx takes --version for itself, and searches the network for a newer npm.
    const environment = { ...process.env, npm_config_update_notifier: "false" }
    for (const [program, args] of [
      [join(consumer, "node_modules/.bin/music-backend"), ["openapi"]],
      ["npx", ["--no", "music-backend", "openapi"]]
    ] as const) {
      await build()
      const { stdout } = await run(program, args, { cwd: consumer, env: environment })
      expect(JSON.parse(stdout)).toMatchObject({ openapi: "3.1.0", info: { version } })
    }
  })
})
