/** Every command of a document runs in CI: in the slow tests beside this file, or in what `elsewhere` names. */
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { run } from "../cli/Harness.ts"
import { root } from "../support/Process.ts"
import { blocks, documents, elsewhere, places } from "./Blocks.ts"

const text = (name: string) => readFileSync(join(root, name), "utf8")

/** Tests that take the commands of a place from its document (`scripts("operations.md: Backup")`) and run them. */
const runners = ["test/documents", "test/packaging"]
  .filter((folder) => existsSync(join(root, folder)))
  .flatMap((folder) => readdirSync(join(root, folder)).map((name) => `${folder}/${name}`))
  .filter((name) => /\.(?:test|slow)\.ts$/.test(name))

describe("The commands of the documents", () => {
  it("are each run by a test", () => {
    const sources = runners.map(text).join("\n")
    expect(places.length).toBeGreaterThan(10)
    expect(places.filter((place) => !sources.includes(`"${place}"`))).toEqual([])
  })

  it("are each in the part of CI that runs them, where that is another one", () => {
    const absent = Object.entries(elsewhere).flatMap(([command, files]) =>
      Object.entries(files)
        .filter(([file, part]) => !text(file).includes(part))
        .map(([file]) => `${command}: ${file}`)
    )
    expect(absent).toEqual([])
    const all = blocks.map((block) => block.text).join("\n")
    expect(Object.keys(elsewhere).filter((command) => !all.includes(command))).toEqual([])
  })

  it("are in blocks of the language sh, and every block names its language", () => {
    const known = /^(?:sh|text|js|ts|json|yaml|ini|nginx|sql|caddyfile|dockerfile)$/
    expect(blocks.filter(({ language }) => !known.test(language))).toEqual([])
  })

  it("name only commands of music-backend", async () => {
    const { out } = await Effect.runPromise(run(["help"], {}))
    const known = new Set([...out.matchAll(/^ +- ([a-z]+(?: [a-z]+)?)/gm)].map(([, name = ""]) => name))
    const first = new Set([...known].map((name) => name.split(" ")[0] ?? ""))
    const named = documents.flatMap(([, page]) =>
      [...page.matchAll(/(?:`|&& )music-backend (?!-)([a-z]+)(?: ([a-z]+))?/g)].map(
        ([, command = "", sub]) => (sub === undefined || known.has(command) ? command : `${command} ${sub}`)
      )
    )
    expect(named.length).toBeGreaterThan(30)
    expect(named.filter((name) => !known.has(name) && !first.has(name))).toEqual([])
  })

  it("name only scripts of package.json", () => {
    const { scripts }: { readonly scripts: Readonly<Record<string, string>> } = JSON.parse(
      text("package.json")
    )
    const named = documents.flatMap(([name, page]) =>
      [...page.matchAll(/npm run (?:-s )?([a-z][a-z:]*)/g)].map(([, script = ""]) => [name, script] as const)
    )
    expect(named.length).toBeGreaterThan(20)
    expect(named.filter(([, script]) => scripts[script] === undefined)).toEqual([])
  })
})
