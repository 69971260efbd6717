/** The package as npm packs it: in a program with its own `effect`, and its run-time dependencies. */
import { execFile } from "node:child_process"
import { cp, mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises"
import { builtinModules } from "node:module"
import { join } from "node:path"
import { promisify } from "node:util"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { root } from "../../support/Process.ts"
import { type Built, buildClient, scratch } from "../support/Built.ts"
import { startRegistry } from "../support/Registry.ts"

const run = promisify(execFile)

/** The consumer's version: a later patch version of ours. */
const own = async (name: string): Promise<string> => {
  const manifest: unknown = JSON.parse(
    await readFile(join(root, "node_modules", name, "package.json"), "utf8")
  )
  const { version } = manifest as { readonly version: string }
  return version.replace(/\d+$/, (patch) => String(Number(patch) + 1))
}

let made: Built
let packed: string
let versions: Readonly<Record<string, string>>
beforeAll(async () => {
  made = await scratch()
  versions = { effect: await own("effect"), "@effect/platform": await own("@effect/platform") }
  const built = await buildClient({ types: false })
  const source = join(made.folder, "source")
  await cp(built.folder, join(source, "dist/client"), { recursive: true })
  await built.remove()
  await cp(join(root, "package.json"), join(source, "package.json"))
  const { stdout } = await run("npm", ["pack", "--ignore-scripts", "--silent"], { cwd: source })
  packed = join(source, stdout.trim())
})
afterAll(() => made.remove())

describe("A program with its own effect, one patch version later than ours", () => {
  it("gets no second effect from npm", async () => {
    const registry = await startRegistry(versions)
    const consumer = join(made.folder, "planned")
    await mkdir(consumer)
    const dependencies = { ...versions, "music-backend": `file:${packed}` }
    // The registry serves only the versions of our lock file, which was made with these.
    const { overrides } = JSON.parse(await readFile(join(root, "package.json"), "utf8"))
    await writeFile(
      join(consumer, "package.json"),
      JSON.stringify({ private: true, dependencies, overrides })
    )
    const words = [
      "--registry",
      registry.url,
      "--cache",
      join(made.folder, "cache"),
      "--no-audit",
      "--no-fund"
    ]
    await run("npm", ["install", "--package-lock-only", "--ignore-scripts", ...words], { cwd: consumer })
    await registry.close()
    const lock: unknown = JSON.parse(await readFile(join(consumer, "package-lock.json"), "utf8"))
    const { packages } = lock as { readonly packages: Readonly<Record<string, { readonly version: string }>> }
    const placesOf = (name: string) =>
      Object.entries(packages).flatMap(([path, { version }]) =>
        path.endsWith(`node_modules/${name}`) ? [`${path} ${version}`] : []
      )
    expect(packages["node_modules/music-backend"]).toBeDefined()
    for (const [name, version] of Object.entries(versions))
      expect(placesOf(name)).toEqual([`node_modules/${name} ${version}`])
  })

  it("shares it with the client at run time", async () => {
    const consumer = join(made.folder, "installed")
    const modules = join(consumer, "node_modules")
    const installation = join(modules, "music-backend")
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
      import { MusicClient } from "music-backend/client/effect"

      const client = createRequire(import.meta.resolve("music-backend/client/effect"))
      const program = createRequire(import.meta.url)
      const layer = MusicClient.layer({ baseUrl: "http://127.0.0.1:1", source: "daemon", telemetry: false })
      const code = await Effect.runPromise(
        Effect.flatMap(MusicClient, (client) => client.version({ deadlineMilliseconds: 100 })).pipe(
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
    expect([...libraries]).toEqual(["better-sqlite3"])
  })
})
