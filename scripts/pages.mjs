// Bundles the pages of the sandbox: the script and the style of each, as text. The sandbox calls it when it starts in a clone, and
// build.mjs when it bundles the command line, so that an installed sandbox needs neither sources nor esbuild.
import { fileURLToPath } from "node:url"
import { build } from "esbuild"

const entries = { console: "sandbox/console/page/main.tsx", tryIt: "sandbox/tryit/main.ts" }

export const bundlePages = async () => {
  const { outputFiles } = await build({
    absWorkingDir: fileURLToPath(new URL("..", import.meta.url)),
    entryPoints: entries,
    outdir: "pages",
    bundle: true,
    minify: true,
    format: "iife",
    target: "es2022",
    jsx: "automatic",
    jsxImportSource: "preact",
    charset: "utf8",
    legalComments: "none",
    logLevel: "warning",
    write: false
  })
  const textOf = (name) => outputFiles.find(({ path }) => path.endsWith(name))?.text ?? ""
  const pageOf = (name) => [name, { script: textOf(`${name}.js`), style: textOf(`${name}.css`) }]
  return Object.fromEntries(Object.keys(entries).map(pageOf))
}
