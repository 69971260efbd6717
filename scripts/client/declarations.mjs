import { spawnSync } from "node:child_process"
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { dirname, join, relative } from "node:path"
import { entries } from "./bundles.mjs"

const compile = (folder) => {
  const compiler = createRequire(import.meta.url).resolve("typescript/bin/tsc")
  const { status } = spawnSync(
    process.execPath,
    [compiler, "-p", "tsconfig.client.json", "--outDir", folder],
    { stdio: "inherit" }
  )
  if (status !== 0) process.exit(status ?? 1)
}

/** A relative import; the compiler keeps the endings of the sources. */
const importing = /((?:from|import)\s*\(?\s*")(\.[^"]*)\.ts"/g

/** The declarations that the given ones reach, with their texts. */
const reachableFrom = async (files) => {
  const texts = new Map()
  const queue = [...files]
  for (let file = queue.pop(); file !== undefined; file = queue.pop()) {
    if (texts.has(file)) continue
    const text = await readFile(file, "utf8")
    texts.set(file, text)
    const folder = dirname(file)
    for (const [, , target] of text.matchAll(importing)) queue.push(join(folder, `${target}.d.ts`))
  }
  return texts
}

const write = async (file, text) => {
  await mkdir(dirname(file), { recursive: true })
  await writeFile(file, text)
}

/** Writes the declarations of all entry points: for ES modules (.d.ts), and for CommonJS (.d.cts), which requires the same ES modules. */
export const writeDeclarations = async (out) => {
  const made = await mkdtemp(join(tmpdir(), "music-client-types-"))
  try {
    compile(made)
    const texts = await reachableFrom(entries.map((name) => join(made, `client/${name}.d.ts`)))
    for (const kind of ["ts", "cts"]) {
      const ending = kind.replace("ts", "js")
      for (const [file, text] of texts) {
        const target = join(out, "types", relative(made, file)).replace(/ts$/, kind)
        await write(target, text.replace(importing, `$1$2.${ending}"`))
      }
      // Beside the code, where resolvers that do not know `exports` look for them.
      for (const name of entries)
        await write(join(out, `${name}.d.${kind}`), `export * from "./types/client/${name}.${ending}"\n`)
    }
  } finally {
    await rm(made, { recursive: true, force: true })
  }
}
