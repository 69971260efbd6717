import { mkdir, writeFile } from "node:fs/promises"
import { dirname, join, relative } from "node:path"
import { fileURLToPath } from "node:url"
import { build } from "esbuild"

const root = fileURLToPath(new URL("../..", import.meta.url))

const entries = {
  index: { platform: "browser" },
  node: { platform: "node" },
  effect: {
    platform: "neutral",
    external: ["effect", "effect/*", "@effect/platform", "@effect/platform/*"]
  }
}

/** Not minified: bundlers keep the marks of pure calls, and people can read it. The folder only gives names to the maps. */
const common = {
  // Otherwise the folder that esbuild was loaded in.
  absWorkingDir: root,
  bundle: true,
  target: "es2022",
  legalComments: "none",
  logLevel: "warning",
  sourcemap: true,
  outdir: "dist/client",
  write: false,
  metafile: true
}

/**
 * The modules that an entry point exports from. Each becomes a chunk of its own: bundlers leave out whole modules of a
 * package without side effects, but cannot leave out parts of a module that has Effect inside.
 */
const modulesOf = async (entry, options) => {
  const { metafile } = await build({ ...common, ...options, entryPoints: [entry], format: "esm" })
  return metafile.inputs[entry].imports.flatMap(({ external, path }) => (external ? [] : [path]))
}

const buildModules = async (name, options) => {
  const entry = `client/${name}.ts`
  const modules = await modulesOf(entry, options)
  const entryPoints = { [name]: entry }
  for (const [index, module] of modules.entries()) entryPoints[`unused/${index}`] = module
  const { metafile, outputFiles } = await build({
    ...common,
    ...options,
    entryPoints,
    format: "esm",
    splitting: true,
    chunkNames: "chunks/[name]-[hash]"
  })
  return { metafile, files: outputFiles.filter(({ path }) => !path.includes("/unused/")) }
}

const buildCommonJs = async (name, options) => {
  const { metafile, outputFiles } = await build({
    ...common,
    ...options,
    entryPoints: { [name]: `client/${name}.ts` },
    format: "cjs",
    outExtension: { ".js": ".cjs" }
  })
  return { metafile, files: outputFiles }
}

/** A library's documentation is most of its source. Lines keep their numbers. */
const withoutDocumentation = (text) =>
  text.replace(/\/\*\*[\s\S]*?\*\//g, (comment) => comment.replace(/[^\n]+/g, ""))

/** Names the sources by their path in the repository, and marks libraries, so that debuggers can skip them. */
const portableMap = (text) => {
  const map = JSON.parse(text)
  const sources = map.sources.map((source) => source.replace(/^.*(?=node_modules\/)|^(?:\.\.\/)+/, ""))
  const isLibrary = (source) => source.startsWith("node_modules/")
  return JSON.stringify({
    ...map,
    sources,
    sourcesContent: map.sourcesContent.map((content, index) =>
      content !== null && isLibrary(sources[index]) ? withoutDocumentation(content) : content
    ),
    ignoreList: sources.flatMap((source, index) => (isLibrary(source) ? [index] : []))
  })
}

const write = async (out, { path, text }) => {
  const file = join(out, relative(join(root, common.outdir), path))
  await mkdir(dirname(file), { recursive: true })
  await writeFile(file, path.endsWith(".map") ? portableMap(text) : text)
}

/** The folder of the package that a bundled file belongs to. */
const libraryOf = (path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(path)?.[0]

/** Writes all entry points; returns the folders of the libraries that are inside. */
export const writeBundles = async (out) => {
  const built = await Promise.all(
    Object.entries(entries).flatMap(([name, options]) => [
      buildModules(name, options),
      buildCommonJs(name, options)
    ])
  )
  await Promise.all(built.flatMap(({ files }) => files).map((file) => write(out, file)))
  const inputs = built.flatMap(({ metafile }) =>
    Object.values(metafile.outputs).flatMap(({ inputs }) =>
      Object.entries(inputs).flatMap(([path, { bytesInOutput }]) => (bytesInOutput > 0 ? [path] : []))
    )
  )
  return [...new Set(inputs.flatMap((path) => libraryOf(path) ?? []))].toSorted()
}
