/** The client as npm packs and installs it. */
import { execFile } from "node:child_process"
import { cp, mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises"
import { join, relative } from "node:path"
import { promisify } from "node:util"
import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core"
import { publint } from "publint"
import { afterAll, beforeAll, expect, it } from "vitest"
import { root, scratch } from "../world/Fleet.ts"

const run = promisify(execFile)

/** What the build reads. */
const sources = ["client", "docs", "examples", "sandbox", "scripts", "src"]
const files = ["package.json", "tsconfig.json", "tsconfig.client.json", "LICENSE", "README.md"]

/** A clone with its development packages installed. */
const makeClone = async (): Promise<void> => {
  const modules = join(clone, "node_modules")
  await mkdir(modules, { recursive: true })
  for (const name of [...sources, ...files])
    await cp(join(root, name), join(clone, name), { recursive: true })
  for (const name of await readdir(join(root, "node_modules")))
    if (name !== "music-client" && name !== ".cache")
      await symlink(join(root, "node_modules", name), join(modules, name))
}

/** What an older build has left. */
const stale = "dist/client/chunks/stale.js"
const made = scratch()
const clone = join(made.path, "clone")
const consumer = join(made.path, "empty")
let packed: string
beforeAll(async () => {
  await makeClone()
  await mkdir(join(clone, stale, ".."), { recursive: true })
  await writeFile(join(clone, stale), "")
  const env = { ...process.env, MUSIC_REPOSITORY: "https://git.example/music.git" }
  const { stdout } = await run("npm", ["run", "pack:client"], { cwd: clone, env })
  packed = stdout.trim().split("\n").at(-1) ?? ""
  await mkdir(consumer)
  await writeFile(join(consumer, "package.json"), '{"private":true}')
  await writeFile(join(consumer, ".npmrc"), "engine-strict=true\n")
  // Nothing can be downloaded. Offline npm cannot ask for the versions of the optional peers either.
  const words = ["install", packed, "--offline", "--legacy-peer-deps", "--no-audit", "--no-fund"]
  await run("npm", [...words, "--cache", join(made.path, "cache")], { cwd: consumer })
})
afterAll(() => made.remove())

const jsonOf = async (path: string) => JSON.parse(await readFile(path, "utf8"))

it("An empty project installs one package, downloads nothing else, and runs it", async () => {
  const { packages } = await jsonOf(join(consumer, "package-lock.json"))
  expect(Object.keys(packages)).toEqual(["", "node_modules/music-client"])
  expect(packages["node_modules/music-client"].hasInstallScript).toBeUndefined()
  await writeFile(
    join(consumer, "program.mjs"),
    `
    import { createMusicClient } from "music-client"
    import { fileSessionStore } from "music-client/node"
    const sessionStore = fileSessionStore({ directory: "./sessions" })
    const client = createMusicClient({ baseUrl: "http://127.0.0.1:1", source: "cli", telemetry: false, sessionStore })
    console.log(JSON.stringify([await client.session(), await client.version()]))`
  )
  const { stdout } = await run(process.execPath, ["program.mjs"], { cwd: consumer })
  const away = { ok: false, error: { code: "transport_failed" } }
  expect(JSON.parse(stdout)).toMatchObject([{ ok: true, value: null }, away])
})

it("The packed client has no problem that publint or attw knows, for ES modules and for CommonJS", async () => {
  const { messages } = await publint({ pkgDir: join(clone, "dist/client"), strict: true, pack: false })
  expect(messages).toEqual([])
  const places = {
    repository: { url: "https://git.example/music.git" },
    homepage: "https://git.example/music#readme",
    bugs: { url: "https://git.example/music/issues" }
  }
  expect(await jsonOf(join(clone, "dist/client/package.json"))).toMatchObject(places)
  const checked = await checkPackage(createPackageFromTarballData(await readFile(packed)))
  expect(checked).toMatchObject({ types: { kind: "included" }, problems: [] })
})

it("The installed client holds what its entry points and its page need, nothing older, and no path of the machine", async () => {
  const folder = join(consumer, "node_modules/music-client")
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const paths = entries
    .filter((entry) => entry.isFile())
    .map(({ name, parentPath }) => relative(folder, join(parentPath, name)))
  const ofEntries = ["index", "node", "telemetry", "effect"].flatMap((name) =>
    ["js", "cjs", "d.ts", "d.cts"].map((ending) => `${name}.${ending}`)
  )
  const texts = await Promise.all(paths.map((path) => readFile(join(folder, path), "utf8")))
  const readme = texts[paths.indexOf("README.md")] ?? ""
  const links = [...readme.matchAll(/\]\((?!https?:|#)([^)#]*)/g)].map(([, path = ""]) => path)
  const others = ["LICENSE", "THIRD-PARTY-LICENSES", "examples/promise-cli.mjs", ...links]
  expect(paths).toEqual(expect.arrayContaining([...ofEntries, ...others]))
  expect(paths.filter((path) => /stale/.test(path))).toEqual([])
  expect(texts.filter((text) => text.includes(made.path))).toEqual([])
  const manifest = await jsonOf(join(folder, "package.json"))
  expect(manifest.dependencies).toBeUndefined()
  // A program's own later patch version fits, so npm installs no second one.
  for (const name of ["effect", "@effect/platform"]) {
    expect(manifest.peerDependencies[name]).toMatch(/^\^\d+\.\d+\.\d+$/)
    expect(manifest.peerDependenciesMeta[name]).toEqual({ optional: true })
  }
  expect(manifest.version).toBe((await jsonOf(join(root, "package.json"))).version)
})
