import { execFile } from "node:child_process"
import { copyFile, mkdir, readFile, rm, stat, symlink, utimes, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { promisify } from "node:util"
import { beforeAll, describe, expect, it } from "vitest"
import { version } from "../../src/schema/Release.ts"
import { root } from "../world/Fleet.ts"
import { folderOfFile } from "../world/Folder.ts"

const run = promisify(execFile)

/** A separate package, whose `dist` no other test uses. */
const folder = folderOfFile()
beforeAll(async () => {
  await copyFile(join(root, "package.json"), join(folder, "package.json"))
  for (const name of ["src", "client", "sandbox"]) await symlink(join(root, name), join(folder, name))
  await symlink(join(root, "node_modules"), join(folder, "node_modules"))
})

const build = () => run(process.execPath, [join(root, "scripts/build.mjs")], { cwd: folder })

it("The command line runs through its link after a build, and with npx after a rebuild", async () => {
  const consumer = join(folder, "consumer")
  await mkdir(join(consumer, "node_modules/.bin"), { recursive: true })
  await symlink(folder, join(consumer, "node_modules/music-backend"))
  await symlink("../music-backend/dist/cli.js", join(consumer, "node_modules/.bin/music-backend"))
  // npx takes --version for itself, and searches the network for a newer npm.
  const env = { ...process.env, npm_config_update_notifier: "false" }
  for (const [program, args] of [
    [join(consumer, "node_modules/.bin/music-backend"), ["version"]],
    ["npx", ["--no", "music-backend", "version"]]
  ] as const) {
    await build()
    const { stdout } = await run(program, args, { cwd: consumer, env })
    expect(stdout.startsWith(`${version} (build `)).toBe(true)
  }
})

it("The name of a build tells other sources apart, and is the same for the same ones", async () => {
  const manifest = join(folder, "package.json")
  const own = await readFile(manifest, "utf8")
  const named = async (content: string) => {
    await writeFile(manifest, content)
    await build()
    return (await run(process.execPath, [join(folder, "dist/cli.js"), "version"])).stdout
  }
  const first = await named(own)
  expect(await named(`${own}\n`)).not.toBe(first)
  expect(await named(own)).toBe(first)
})

/** What `npm start` runs before the server. */
describe("The build before a start", () => {
  const buildIfNeeded = (script = join(root, "scripts/build.mjs")) =>
    run(process.execPath, [script, "--if-needed"], { cwd: folder })
  const main = () => join(folder, "dist/main.js")
  const timeOfBundle = async () => (await stat(main())).mtimeMs
  /** As if a source had changed since the build. */
  const age = () => writeFile(join(folder, "dist/sources.sha256"), "of other sources")
  const old = 1_000_000
  /** Times as an archive or an image sets them: older than every source. */
  const setOldTimes = () =>
    Promise.all(
      ["main", "cli"].map((name) => utimes(join(folder, `dist/${name}.js`), old / 1_000, old / 1_000))
    )

  it("builds when the bundle is missing or made of other sources, and else does nothing, whatever the times of the files", async () => {
    await rm(join(folder, "dist"), { recursive: true, force: true })
    await buildIfNeeded()
    await setOldTimes()
    expect(await buildIfNeeded()).toEqual({ stdout: "", stderr: "" })
    expect(await timeOfBundle()).toBe(old)
    await age()
    await buildIfNeeded()
    expect(await timeOfBundle()).toBeGreaterThan(old)
  })

  it("keeps an old bundle where esbuild is missing, and fails where there is none", async () => {
    // The script finds esbuild beside itself.
    const script = join(folder, "build.mjs")
    await copyFile(join(root, "scripts/build.mjs"), script)
    await rm(join(folder, "node_modules"))
    await age()
    await setOldTimes()
    const line = "esbuild is not installed: dist stays older than its sources\n"
    expect((await buildIfNeeded(script)).stderr).toBe(line)
    expect(await timeOfBundle()).toBe(old)
    await rm(main())
    await expect(buildIfNeeded(script)).rejects.toMatchObject({
      code: 1,
      stderr: "esbuild is not installed: run npm ci && npm run build first\n"
    })
    await symlink(join(root, "node_modules"), join(folder, "node_modules"))
    await buildIfNeeded()
  })
})
