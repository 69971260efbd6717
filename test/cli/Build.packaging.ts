import { execFile } from "node:child_process"
import { copyFile, mkdir, readFile, rm, stat, symlink, utimes, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { promisify } from "node:util"
import { beforeAll, expect, it } from "vitest"
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

it("The build before a start makes a bundle that is missing or of other sources, and else does nothing", async () => {
  const buildIfNeeded = () =>
    run(process.execPath, [join(root, "scripts/build.mjs"), "--if-needed"], { cwd: folder })
  const main = join(folder, "dist/main.js")
  const timeOfBundle = async () => (await stat(main)).mtimeMs
  await rm(join(folder, "dist"), { recursive: true, force: true })
  await buildIfNeeded()
  // As an archive or an image sets it: older than every source.
  await utimes(main, 1_000, 1_000)
  expect(await buildIfNeeded()).toEqual({ stdout: "", stderr: "" })
  expect(await timeOfBundle()).toBe(1_000_000)
  // As if a source had changed since the build.
  await writeFile(join(folder, "dist/sources.sha256"), "of other sources")
  await buildIfNeeded()
  expect(await timeOfBundle()).toBeGreaterThan(1_000_000)
})
