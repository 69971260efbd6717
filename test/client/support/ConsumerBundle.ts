/** What a page of a consumer loads: the used part of the promise client, bundled and minified. */
import { join } from "node:path"
import { gzipSync } from "node:zlib"
import { type BuildOptions, build } from "esbuild"
import { rollup } from "rollup"
import type { Built } from "./Built.ts"

export const bundlers = ["esbuild", "rollup"] as const
export type Bundler = (typeof bundlers)[number]

const programOf = (names: ReadonlyArray<string>, from: string): string =>
  `import { ${names.join(", ")} } from ${JSON.stringify(from)}\nglobalThis.used = [${names.join(", ")}]`

const minified: BuildOptions = {
  bundle: true,
  minify: true,
  write: false,
  format: "esm",
  platform: "browser",
  target: "es2022",
  legalComments: "none",
  logLevel: "warning"
}

const esbuildBundle = async (contents: string, folder: string): Promise<string> => {
  const { outputFiles } = await build({ ...minified, stdin: { contents, resolveDir: folder } })
  return outputFiles?.[0]?.text ?? ""
}

const rollupBundle = async (contents: string, folder: string): Promise<string> => {
  const entry = "\0program"
  const bundle = await rollup({
    input: entry,
    plugins: [
      {
        name: "consumer",
        // What a resolver of packages does: it finds the entry point and reads `sideEffects` of its manifest.
        resolveId: (id, importer = "") => {
          if (id === entry) return id
          if (id === "music-client") return { id: join(folder, "index.js"), moduleSideEffects: false }
          return { id: join(importer, "..", id), moduleSideEffects: false }
        },
        load: (id) => (id === entry ? contents : null)
      }
    ]
  })
  const { output } = await bundle.generate({ format: "es" })
  const code = output.map((file) => (file.type === "chunk" ? file.code : "")).join("\n")
  return esbuildBundle(code, folder)
}

/** The script of a page that uses `names`, in a project that has the client installed. */
export const consumerBundle = (
  bundler: Bundler,
  project: Built,
  names: ReadonlyArray<string>
): Promise<string> => {
  const contents = programOf(names, "music-client")
  return bundler === "esbuild"
    ? esbuildBundle(contents, project.folder)
    : rollupBundle(contents, join(project.folder, "node_modules/music-client"))
}

export const gzippedSize = (text: string): number => gzipSync(text).length

/** Bare imports of a file and of the files that it imports. */
export const externalImports = async (file: string): Promise<ReadonlyArray<string>> => {
  const { metafile } = await build({
    entryPoints: [file],
    bundle: true,
    write: false,
    metafile: true,
    format: "esm",
    packages: "external",
    logLevel: "warning"
  })
  return Object.values(metafile.inputs).flatMap(({ imports }) =>
    imports.flatMap(({ external, path }) => (external === true ? [path] : []))
  )
}
