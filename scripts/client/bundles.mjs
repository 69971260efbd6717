import { mkdir, writeFile } from "node:fs/promises"
import { dirname, join, relative } from "node:path"
import { fileURLToPath } from "node:url"
import { build } from "esbuild"

const root = fileURLToPath(new URL("../..", import.meta.url))

export const entries = ["index", "node", "telemetry", "effect"]

/** Not minified: bundlers keep the marks of pure calls, and people can read it, so no source map is needed. */
const common = {
  // Otherwise the folder that esbuild was loaded in.
  absWorkingDir: root,
  bundle: true,
  format: "esm",
  platform: "neutral",
  mainFields: ["module", "main"],
  conditions: ["module", "import"],
  external: ["node:*", "effect", "effect/*", "@effect/platform", "@effect/platform/*"],
  target: "es2022",
  legalComments: "none",
  logLevel: "warning",
  outdir: "dist/client",
  write: false,
  metafile: true
}

const fileOf = (name) => `client/${name}.ts`

/**
 * The modules that the entry points export from. Each becomes a chunk of its own: bundlers leave out whole modules of a package without
 * side effects more surely than parts of one.
 */
const findModules = async () => {
  const { metafile } = await build({ ...common, entryPoints: entries.map(fileOf) })
  const imports = entries.flatMap((name) => metafile.inputs[fileOf(name)].imports)
  return [...new Set(imports.flatMap(({ external, path }) => (external ? [] : [path])))]
}

const write = async (out, { path, text }) => {
  const file = join(out, relative(join(root, common.outdir), path))
  await mkdir(dirname(file), { recursive: true })
  await writeFile(file, text)
}

/** The folder of the package that a bundled file belongs to. */
const libraryOf = (path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(path)?.[0]

/** Writes all entry points; returns the folders of the libraries that are inside. */
export const writeBundles = async (out) => {
  const entryPoints = Object.fromEntries(entries.map((name) => [name, fileOf(name)]))
  for (const [index, module] of (await findModules()).entries()) entryPoints[`unused/${index}`] = module
  const { metafile, outputFiles } = await build({
    ...common,
    entryPoints,
    splitting: true,
    chunkNames: "chunks/[name]-[hash]"
  })
  const files = outputFiles.filter(({ path }) => !path.includes("/unused/"))
  await Promise.all(files.map((file) => write(out, file)))
  const inputs = Object.values(metafile.outputs).flatMap(({ inputs }) =>
    Object.entries(inputs).flatMap(([path, { bytesInOutput }]) => (bytesInOutput > 0 ? [path] : []))
  )
  return [...new Set(inputs.flatMap((path) => libraryOf(path) ?? []))].toSorted()
}
