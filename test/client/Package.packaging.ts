/** Both packages as npm packs them, the client as npm installs it, and the run-time dependencies of the server. */
import { execFile } from "node:child_process"
import { cp, mkdir, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises"
import { builtinModules } from "node:module"
import { join } from "node:path"
import { promisify } from "node:util"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { root } from "../world/Fleet.ts"
import { type Built, scratch } from "./support/Built.ts"

const run = promisify(execFile)

/** The consumer's version: a later patch version of ours. */
const own = async (name: string): Promise<string> => {
  const manifest: unknown = JSON.parse(
    await readFile(join(root, "node_modules", name, "package.json"), "utf8")
  )
  const { version } = manifest as { readonly version: string }
  return version.replace(/\d+$/, (patch) => String(Number(patch) + 1))
}

/** What the build of both packages reads. */
const sources = ["client", "docs", "examples", "sandbox", "scripts", "src"]
const files = ["package.json", "tsconfig.json", "tsconfig.client.json", "LICENSE", "README.md"]

/** A clone with its development packages installed. */
const makeClone = async (folder: string): Promise<void> => {
  const modules = join(folder, "node_modules")
  await mkdir(modules, { recursive: true })
  for (const name of [...sources, ...files])
    await cp(join(root, name), join(folder, name), { recursive: true })
  for (const name of await readdir(join(root, "node_modules")))
    if (name !== "music-client" && name !== ".cache")
      await symlink(join(root, "node_modules", name), join(modules, name))
}

let made: Built
let clone: string
let packed: string
let versions: Readonly<Record<string, string>>
beforeAll(async () => {
  made = await scratch()
  clone = join(made.folder, "clone")
  versions = { effect: await own("effect"), "@effect/platform": await own("@effect/platform") }
  await makeClone(clone)
  const { stdout } = await run("npm", ["run", "pack:client"], { cwd: clone })
  packed = stdout.trim().split("\n").at(-1) ?? ""
})
afterAll(() => made.remove())

/** Of the packed files, those of another kind, and those that name a folder of the machine on which they were built. */
const strangers = async (folder: string, paths: ReadonlyArray<string>, kinds: ReadonlyArray<RegExp>) => {
  const machines = await Promise.all(
    paths.map(async (path) => (await readFile(join(folder, path), "utf8")).includes(made.folder))
  )
  return paths.filter((path, index) => machines[index] === true || !kinds.some((kind) => kind.test(path)))
}

/** The paths that `npm pack` would put into the package of a folder, after it has run what the package asks for. */
const packedPaths = async (folder: string): Promise<ReadonlyArray<string>> => {
  const { stdout } = await run("npm", ["pack", "--dry-run", "--json", "--silent"], { cwd: folder })
  const [{ files }] = JSON.parse(stdout.slice(stdout.indexOf("[\n")))
  return files.map(({ path }: { readonly path: string }) => path)
}

describe("An empty project", () => {
  it("installs one package, downloads nothing else, and runs it", async () => {
    const consumer = join(made.folder, "empty")
    await mkdir(consumer)
    await writeFile(join(consumer, "package.json"), '{"private":true}')
    await writeFile(join(consumer, ".npmrc"), "engine-strict=true\n")
    // Nothing can be downloaded. Offline npm cannot ask for the versions of the optional peers either.
    const words = ["install", packed, "--offline", "--legacy-peer-deps", "--no-audit", "--no-fund"]
    await run("npm", [...words, "--cache", join(made.folder, "cache")], { cwd: consumer })
    const lock = await readFile(join(consumer, "package-lock.json"), "utf8")
    const { packages } = JSON.parse(lock) as {
      readonly packages: Record<string, { hasInstallScript?: boolean }>
    }
    expect(Object.keys(packages)).toEqual(["", "node_modules/music-client"])
    expect(packages["node_modules/music-client"]?.hasInstallScript).toBeUndefined()
    await writeFile(
      join(consumer, "program.mjs"),
      `
      import { createMusicClient } from "music-client"
      import { fileSessionStore } from "music-client/node"
      const sessionStore = fileSessionStore({ directory: "./sessions" })
      const client = createMusicClient({ baseUrl: "http://127.0.0.1:1", source: "cli", telemetry: false, sessionStore })
      const session = await client.session()
      const version = await client.version()
      console.log(JSON.stringify({ session: session.ok ? session.value : session.error.code, version: version.ok ? "ok" : version.error.code }))`
    )
    const { stdout } = await run(process.execPath, ["program.mjs"], { cwd: consumer })
    expect(JSON.parse(stdout)).toEqual({ session: null, version: "transport_failed" })
  })
})

describe("In a clone", () => {
  it("the build leaves a foreign folder alone", async () => {
    const foreign = join(made.folder, "foreign")
    await mkdir(foreign)
    await writeFile(join(foreign, "kept"), "")
    const script = join(clone, "scripts/build-client.mjs")
    await expect(run(process.execPath, [script, "--out", foreign])).rejects.toMatchObject({ code: 1 })
    expect(await readdir(foreign)).toEqual(["kept"])
  })

  it("npm pack of the client builds it first, from nothing older", async () => {
    const folder = join(clone, "dist/client")
    await writeFile(join(folder, "chunks/stale.js"), "")
    await rm(join(folder, "index.js"))
    const paths = await packedPaths(folder)
    const entries = ["index", "node", "effect"].flatMap((name) =>
      ["js", "js.map", "cjs", "cjs.map", "d.ts", "d.cts"].map((ending) => `${name}.${ending}`)
    )
    const others = [
      "package.json",
      "README.md",
      "LICENSE",
      "THIRD-PARTY-LICENSES",
      "examples/promise-cli.mjs"
    ]
    expect(paths).toEqual(expect.arrayContaining([...entries, ...others]))
    expect(paths.filter((path) => /stale/.test(path))).toEqual([])
    const kinds = [
      /^(?:index|node|effect|chunks\/[\w-]+)\.c?js(?:\.map)?$/,
      /^(?:(?:client|src)\/)?[\w/-]+\.d\.c?ts$/,
      /^(?:package\.json|README\.md|LICENSE|THIRD-PARTY-LICENSES)$/,
      /^examples\/[\w/-]+\.(?:ts|mjs|html|md)$/
    ]
    expect(await strangers(folder, paths, kinds)).toEqual([])
    const readme = await readFile(join(folder, "README.md"), "utf8")
    const links = [...readme.matchAll(/\]\((?!https?:|#)([^)#]*)/g)].map(([, path = ""]) => path)
    expect(links.filter((path) => !paths.includes(path))).toEqual([])
    const { dependencies, peerDependencies, peerDependenciesMeta, version } = JSON.parse(
      await readFile(join(folder, "package.json"), "utf8")
    )
    expect(dependencies).toBeUndefined()
    // A program's own later patch version fits, so npm installs no second one.
    for (const name of ["effect", "@effect/platform"]) {
      expect(peerDependencies[name]).toMatch(/^\^\d+\.\d+\.\d+$/)
      expect(peerDependenciesMeta[name]).toEqual({ optional: true })
    }
    expect(version).toBe(JSON.parse(await readFile(join(root, "package.json"), "utf8")).version)
  })

  it("npm pack of the server builds it first, from nothing older and without the client", async () => {
    const chunks = join(clone, "dist/chunks")
    await mkdir(chunks, { recursive: true })
    await writeFile(join(chunks, "chunk-OLD.js"), "")
    await writeFile(join(clone, "dist/old.js"), "")
    const paths = await packedPaths(clone)
    expect(paths).toEqual(expect.arrayContaining(["dist/main.js", "dist/cli.js", "docs/client.md"]))
    expect(paths.filter((path) => /OLD|old\.js/.test(path))).toEqual([])
    const kinds = [
      /^dist\/(?:(?:main|cli|chunks\/[\w-]+)\.js(?:\.map)?|sources\.sha256)$/,
      /^docs\/[\w/-]+\.(?:md|json|svg|png)$/,
      /^examples\/[\w/-]+\.(?:ts|mjs|html|md)$/,
      /^scripts\/build\.mjs$/,
      /^(?:package\.json|README\.md|LICENSE)$/
    ]
    expect(await strangers(clone, paths, kinds)).toEqual([])
  })
})

describe("A program with its own effect, one patch version later than ours", () => {
  it("shares it with the client at run time", async () => {
    const consumer = join(made.folder, "installed")
    const modules = join(consumer, "node_modules")
    const installation = join(modules, "music-client")
    await mkdir(installation, { recursive: true })
    await run("tar", ["-xzf", packed, "-C", installation, "--strip-components=1"])
    // Copies, not links: a link would lead back to our own.
    for (const [name, version] of Object.entries(versions)) {
      const [from, to] = [join(root, "node_modules", name), join(modules, name)]
      await cp(from, to, { recursive: true, filter: (path) => !/\/(?:src|dts|cjs)$/.test(path) })
      const manifest = await readFile(join(from, "package.json"), "utf8")
      await writeFile(join(to, "package.json"), manifest.replace(/("version": ")[^"]+/, `$1${version}`))
    }
    for (const name of [
      "@standard-schema",
      "fast-check",
      "pure-rand",
      "find-my-way-ts",
      "msgpackr",
      "multipasta"
    ])
      await symlink(join(root, "node_modules", name), join(modules, name))
    await writeFile(
      join(consumer, "program.mjs"),
      `
      import { createRequire } from "node:module"
      import * as Effect from "effect/Effect"
      import * as Layer from "effect/Layer"
      import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
      import { MusicClient } from "music-client/effect"

      const client = createRequire(import.meta.resolve("music-client/effect"))
      const program = createRequire(import.meta.url)
      const layer = MusicClient.layer({ baseUrl: "http://127.0.0.1:1", source: "daemon", telemetry: false })
      const code = await Effect.runPromise(
        Effect.flatMap(MusicClient, (client) => client.version()).pipe(
          Effect.catchTag("TransportFailed", ({ code }) => Effect.succeed(code)),
          Effect.provide(layer.pipe(Layer.provide(FetchHttpClient.layer)))
        )
      )
      const shared = ["effect", "@effect/platform"].map((name) =>
        client.resolve(name + "/package.json") === program.resolve(name + "/package.json")
      )
      console.log(JSON.stringify({ code, shared, version: program("effect/package.json").version }))`
    )
    const { stderr, stdout } = await run(process.execPath, ["program.mjs"], { cwd: consumer })
    expect(JSON.parse(stdout)).toEqual({
      code: "transport_failed",
      shared: [true, true],
      version: versions.effect
    })
    // Effect warns there when one copy runs what another one made.
    expect(stderr).toBe("")
  })
})

describe("The server and the command line", () => {
  it("need only the SQLite addon at run time: neither effect nor any other library", async () => {
    const folder = join(made.folder, "server")
    await mkdir(folder)
    for (const name of ["src", "client", "sandbox", "scripts", "node_modules"])
      await symlink(join(root, name), join(folder, name))
    await run(process.execPath, ["scripts/build.mjs"], { cwd: folder })
    const served = join(made.folder, "served")
    const modules = join(served, "node_modules")
    await cp(join(folder, "dist"), join(served, "dist"), { recursive: true })
    await cp(join(root, "package.json"), join(served, "package.json"))
    await mkdir(modules)
    for (const name of ["better-sqlite3", "bindings", "file-uri-to-path"])
      await symlink(join(root, "node_modules", name), join(modules, name))
    const version = await run(process.execPath, ["dist/cli.js", "--version"], { cwd: served })
    expect(version.stdout).toMatch(/\d+\.\d+\.\d+/)
    const env = { PATH: process.env.PATH }
    // The whole program is loaded before it reads its settings.
    await expect(run(process.execPath, ["dist/main.js"], { cwd: served, env })).rejects.toMatchObject({
      code: 78
    })
    // And the chunks that are loaded on demand.
    const files = (await readdir(join(served, "dist"), { recursive: true })).filter((name) =>
      name.endsWith(".js")
    )
    const texts = await Promise.all(files.map((name) => readFile(join(served, "dist", name), "utf8")))
    const importing = /\bimport\b(?:[\w$*{}\s,]*\bfrom\s*|\s*\(?\s*)["']([@\w][\w@:./-]*)["']/g
    const nameOf = (target: string) =>
      (/^(?:node:|@[^/]+\/)?[^/]+/.exec(target)?.[0] ?? target).replace(/^node:/, "")
    const wanted = texts.flatMap((text) =>
      [...text.matchAll(importing)].map(([, target = ""]) => nameOf(target))
    )
    const libraries = new Set(wanted.filter((name) => !builtinModules.includes(name)))
    // The samples of /docs are text that names the client.
    libraries.delete("music-client")
    expect([...libraries]).toEqual(["better-sqlite3"])
  })
})
