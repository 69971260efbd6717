/** Both packages as npm packs them, the client as npm installs it, and the run-time dependencies of the server. */
import { execFile } from "node:child_process"
import { cp, mkdir, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises"
import { builtinModules } from "node:module"
import { join } from "node:path"
import { promisify } from "node:util"
import { checkPackage, createPackageFromTarballData } from "@arethetypeswrong/core"
import { publint } from "publint"
import { afterAll, beforeAll, expect, it } from "vitest"
import { root, scratch } from "../world/Fleet.ts"

const run = promisify(execFile)

/** What the build of both packages reads. */
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

const made = scratch()
const clone = join(made.path, "clone")
let packed: string
beforeAll(async () => {
  await makeClone()
  const env = { ...process.env, MUSIC_REPOSITORY: "https://git.example/music.git" }
  const { stdout } = await run("npm", ["run", "pack:client"], { cwd: clone, env })
  packed = stdout.trim().split("\n").at(-1) ?? ""
})
afterAll(() => made.remove())

const jsonOf = async (path: string) => JSON.parse(await readFile(path, "utf8"))

/** Of the packed files, those of another kind, and those that name a folder of the machine on which they were built. */
const strangers = async (folder: string, paths: ReadonlyArray<string>, kinds: ReadonlyArray<RegExp>) => {
  const machines = await Promise.all(
    paths.map(async (path) => (await readFile(join(folder, path), "utf8")).includes(made.path))
  )
  return paths.filter((path, index) => machines[index] === true || !kinds.some((kind) => kind.test(path)))
}

/** The paths that `npm pack` would put into the package of a folder, after it has run what the package asks for. */
const packedPaths = async (folder: string): Promise<ReadonlyArray<string>> => {
  const env = { ...process.env, MUSIC_REPOSITORY: "owner/music" }
  const { stdout } = await run("npm", ["pack", "--dry-run", "--json", "--silent"], { cwd: folder, env })
  const [{ files }] = JSON.parse(stdout.slice(stdout.indexOf("[\n")))
  return files.map(({ path }: { readonly path: string }) => path)
}

it("An empty project installs one package, downloads nothing else, and runs it", async () => {
  const consumer = join(made.path, "empty")
  await mkdir(consumer)
  await writeFile(join(consumer, "package.json"), '{"private":true}')
  await writeFile(join(consumer, ".npmrc"), "engine-strict=true\n")
  // Nothing can be downloaded. Offline npm cannot ask for the versions of the optional peers either.
  const words = ["install", packed, "--offline", "--legacy-peer-deps", "--no-audit", "--no-fund"]
  await run("npm", [...words, "--cache", join(made.path, "cache")], { cwd: consumer })
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

it("In a clone npm pack of the client builds it first, from nothing older", async () => {
  const folder = join(clone, "dist/client")
  await writeFile(join(folder, "chunks/stale.js"), "")
  await rm(join(folder, "index.js"))
  const paths = await packedPaths(folder)
  const endings = ["js", "cjs", "d.ts", "d.cts"]
  const entries = ["index", "node", "telemetry", "effect"].flatMap((name) =>
    endings.map((ending) => `${name}.${ending}`)
  )
  const others = ["README.md", "LICENSE", "THIRD-PARTY-LICENSES", "examples/promise-cli.mjs"]
  expect(paths).toEqual(expect.arrayContaining([...entries, ...others]))
  expect(paths).not.toContain("chunks/stale.js")
  const kinds = [
    /^(?:(?:index|node|telemetry|effect)\.c?js|chunks\/[\w-]+\.js)$/,
    /^(?:(?:client|src)\/)?[\w/-]+\.d\.c?ts$/,
    /^(?:package\.json|README\.md|LICENSE|THIRD-PARTY-LICENSES)$/,
    /^examples\/[\w/-]+\.(?:ts|mjs|html|md)$/
  ]
  expect(await strangers(folder, paths, kinds)).toEqual([])
  const readme = await readFile(join(folder, "README.md"), "utf8")
  const links = [...readme.matchAll(/\]\((?!https?:|#)([^)#]*)/g)].map(([, path = ""]) => path)
  expect(links.filter((path) => !paths.includes(path))).toEqual([])
  const manifest = await jsonOf(join(folder, "package.json"))
  expect(manifest).toMatchObject({
    repository: { url: "git+https://github.com/owner/music.git" },
    homepage: "https://github.com/owner/music#readme"
  })
  expect(manifest.dependencies).toBeUndefined()
  // A program's own later patch version fits, so npm installs no second one.
  for (const name of ["effect", "@effect/platform"]) {
    expect(manifest.peerDependencies[name]).toMatch(/^\^\d+\.\d+\.\d+$/)
    expect(manifest.peerDependenciesMeta[name]).toEqual({ optional: true })
  }
  expect(manifest.version).toBe((await jsonOf(join(root, "package.json"))).version)
})

it("npm pack of the server builds it first, from nothing older, without the client and without libraries", async () => {
  const chunks = join(clone, "dist/chunks")
  await mkdir(chunks, { recursive: true })
  for (const old of [join(chunks, "chunk-OLD.js"), join(clone, "dist/old.js")]) await writeFile(old, "")
  const paths = await packedPaths(clone)
  const needed = ["dist/main.js", "dist/cli.js", "dist/sources.sha256", "scripts/build.mjs", "docs/client.md"]
  expect(paths).toEqual(expect.arrayContaining(needed))
  const built = /^dist\/(?:(?:main|cli|chunks\/(?!chunk-OLD\b)[\w-]+)\.js(?:\.map)?|sources\.sha256)$/
  expect(paths.filter((path) => path.startsWith("dist") && !built.test(path))).toEqual([])
  expect(await strangers(clone, paths, [/^(?:dist|docs|examples|ops|scripts)\/|^[^/]+$/])).toEqual([])
  // What was built needs only the SQLite addon at run time.
  const served = join(made.path, "served")
  const modules = join(served, "node_modules")
  for (const folder of ["dist", "scripts"])
    await cp(join(clone, folder), join(served, folder), { recursive: true })
  await cp(join(root, "package.json"), join(served, "package.json"))
  await mkdir(modules)
  for (const name of ["better-sqlite3", "bindings", "file-uri-to-path"])
    await symlink(join(root, "node_modules", name), join(modules, name))
  const version = await run(process.execPath, ["dist/cli.js", "--version"], { cwd: served })
  expect(version.stdout).toMatch(/\d+\.\d+\.\d+/)
  // As an unpacked package starts it: without sources and esbuild, quietly. The whole program is loaded before it reads its settings.
  const env = { PATH: process.env.PATH, npm_config_update_notifier: "false" }
  const started = run("npm", ["start", "--silent"], { cwd: served, env })
  const stderr = expect.stringMatching(/^(?:music-backend: MUSIC_\w+: is required\n)+$/)
  await expect(started).rejects.toMatchObject({ code: 78, stdout: "", stderr })
  // And the chunks that are loaded on demand. The samples of /docs are text that names the client.
  const importing = /\bimport\b(?:[\w$*{}\s,]*\bfrom\s*|\s*\(?\s*)["'](?:node:)?((?:@[\w-]+\/)?\w[\w.-]*)/g
  const wanted = new Set<string>()
  for (const path of await readdir(join(served, "dist"), { recursive: true }))
    if (path.endsWith(".js") && !path.startsWith("client"))
      for (const [, name = ""] of (await readFile(join(served, "dist", path), "utf8")).matchAll(importing))
        wanted.add(name)
  const own = [...builtinModules, "music-client"]
  expect([...wanted].filter((name) => !own.includes(name))).toEqual(["better-sqlite3"])
})
