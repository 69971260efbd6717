import { execFile } from "node:child_process"
import { copyFile, mkdir, mkdtemp, rm, stat, symlink, utimes, writeFile } from "node:fs/promises"
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

/** What `npm start` runs before the server. */
describe("The build before a start", () => {
  const buildIfNeeded = (script = join(root, "scripts/build.mjs")) =>
    run(process.execPath, [script, "--if-needed"], { cwd: folder })
  const main = () => join(folder, "dist/main.js")
  const timeOfBundle = async () => (await stat(main())).mtimeMs
  /** As if every source had changed since the build. */
  const age = () =>
    Promise.all(["main", "cli"].map((name) => utimes(join(folder, `dist/${name}.js`), 1_000, 1_000)))

  it("builds when the bundle is missing or older than a source, and else does nothing", async () => {
    await rm(join(folder, "dist"), { recursive: true, force: true })
    await buildIfNeeded()
    const built = await timeOfBundle()
    await buildIfNeeded()
    expect(await timeOfBundle()).toBe(built)
    await age()
    await buildIfNeeded()
    expect(await timeOfBundle()).toBeGreaterThanOrEqual(built)
  })

  it("keeps an old bundle where esbuild is missing, and fails where there is none", async () => {
    // The script finds esbuild beside itself.
    const script = join(folder, "build.mjs")
    await copyFile(join(root, "scripts/build.mjs"), script)
    await rm(join(folder, "node_modules"))
    await age()
    expect((await buildIfNeeded(script)).stderr).toContain("esbuild is not installed")
    expect(await timeOfBundle()).toBe(1_000_000)
    await rm(main())
    await expect(buildIfNeeded(script)).rejects.toMatchObject({ code: 1 })
    await symlink(join(root, "node_modules"), join(folder, "node_modules"))
    await buildIfNeeded()
  })

  it("keeps an old bundle in a folder that cannot be written", async () => {
    await age()
    await rm(join(folder, "dist/chunks"), { recursive: true })
    // Not even root can make a folder of this name.
    await writeFile(join(folder, "dist/chunks"), "")
    expect((await buildIfNeeded()).stderr).toContain("dist cannot be written")
    expect(await timeOfBundle()).toBe(1_000_000)
  })
})
