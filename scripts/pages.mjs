// Bundles the page of the sandbox's console: its script and its style, as text. The sandbox calls it when it starts in a clone, and
// build.mjs when it bundles the command line, so that an installed sandbox needs neither sources nor esbuild.
import { fileURLToPath } from "node:url"
import { build } from "esbuild"

export const bundlePage = async () => {
  const { outputFiles } = await build({
    absWorkingDir: fileURLToPath(new URL("..", import.meta.url)),
    entryPoints: ["sandbox/console/page/main.tsx"],
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
  const textOf = (kind) => outputFiles.find(({ path }) => path.endsWith(kind))?.text ?? ""
  return { script: textOf(".js"), style: textOf(".css") }
}
