/** scripts/install.mjs on this clone, whose bundle is built first. */
import { execFile } from "node:child_process"
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { promisify } from "node:util"
import { expect, it } from "vitest"
import { version } from "../../src/schema/Release.ts"
import { root } from "../world/Fleet.ts"
import { folderOfFile } from "../world/Folder.ts"

const run = promisify(execFile)
const install = (target: string) => run(process.execPath, ["scripts/install.mjs", target], { cwd: root })
const runs = async (target: string) => {
  const { stdout } = await run(process.execPath, [join(target, "dist/cli.js"), "version"])
  expect(stdout.startsWith(`${version} (build `)).toBe(true)
}

const folder = folderOfFile()

it("An installation is replaced as a whole; the one before stays, and an interrupted one is repaired", async () => {
  const target = join(folder, "music-backend")
  await install(target)
  await runs(target)
  await writeFile(join(target, "dist/chunks/old.js"), "")
  await install(target)
  // A repetition changes nothing: the version before stays.
  await install(target)
  expect(await readdir(join(target, "dist/chunks"))).not.toContain("old.js")
  expect(await readdir(join(`${target}.previous`, "dist/chunks"))).toContain("old.js")
  expect((await readdir(folder)).toSorted()).toEqual(["music-backend", "music-backend.previous"])
  // Interrupted between its renames.
  await rm(`${target}.previous`, { recursive: true })
  await rename(target, `${target}.previous`)
  await mkdir(`${target}.next`)
  await install(target)
  await runs(target)
})

it("An installation leaves a folder alone that holds something else", async () => {
  const foreign = join(folder, "foreign")
  await mkdir(foreign)
  await writeFile(join(foreign, "kept"), "kept")
  const stderr = expect.stringContaining("holds something else")
  await expect(install(foreign)).rejects.toMatchObject({ code: 1, stderr })
  expect(await readFile(join(foreign, "kept"), "utf8")).toBe("kept")
})
