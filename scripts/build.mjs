// Bundles the server (dist/main.js) and the command line (dist/cli.js): bundled, they start three times as fast as module
// by module. What only some runs need goes into chunks that are loaded when they are used.
// --if-possible (before `npm start`): an installation without development packages keeps the bundle it came with.
// --if-needed (before a command): the same, and nothing is done when no source is newer than the bundle.
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs"
import { basename, dirname, join, relative } from "node:path"

const entries = { main: "src/main.ts", cli: "src/cli/main.ts" }
const bundles = Object.keys(entries).map((name) => `dist/${name}.js`)
const chunks = "dist/chunks"
// All sources of the two entries; the command line starts the sandbox.
const sources = ["src", "sandbox"]
const asked = (flag) => process.argv.includes(flag)

const timeOf = (file) => statSync(file).mtimeMs
const isThere = bundles.every((file) => existsSync(file))

const newestSource = () =>
  sources
    .flatMap((folder) => readdirSync(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => timeOf(join(entry.parentPath, entry.name)))
    .concat(["package.json", "scripts/build.mjs"].map(timeOf))
    .reduce((newest, time) => Math.max(newest, time), 0)

if (asked("--if-needed") && isThere)
  if (!existsSync("src") || newestSource() < Math.min(...bundles.map(timeOf))) process.exit(0)

const esbuild = await import("esbuild").catch(() => undefined)

if (esbuild === undefined) {
  if ((asked("--if-possible") || asked("--if-needed")) && isThere) process.exit(0)
  process.stderr.write("esbuild is not installed and dist is missing: run npm ci && npm run build first\n")
  process.exit(1)
}

const { outputFiles } = await esbuild.build({
  entryPoints: entries,
  outdir: "dist",
  chunkNames: "chunks/[name]-[hash]",
  bundle: true,
  splitting: true,
  // A smaller bundle starts faster; names are kept for stacks and spans.
  minifyWhitespace: true,
  minifySyntax: true,
  platform: "node",
  target: "node20",
  format: "esm",
  sourcemap: true,
  sourcesContent: false,
  legalComments: "none",
  // A native addon cannot be bundled, and the other one is not used.
  external: ["better-sqlite3", "pg-native"],
  // Some bundled packages are CommonJS and call require.
  banner: {
    js: [
      "#!/usr/bin/env node",
      'import { createRequire as __createRequire } from "node:module"',
      "const require = __createRequire(import.meta.url)"
    ].join("\n")
  },
  logLevel: "warning",
  write: false
})

// Each file is written atomically, and the entries last: a process may start from here at any time.
mkdirSync(chunks, { recursive: true })
const isEntry = ({ path }) => dirname(path) !== join(process.cwd(), chunks)
// npm makes a bin executable when it installs the package, but not when the file is built anew.
const modeOf = (path) => (bundles.includes(relative(process.cwd(), path)) ? 0o755 : 0o644)
for (const { contents, path } of outputFiles.toSorted((one, other) => isEntry(one) - isEntry(other))) {
  const partial = `${path}.${process.pid}`
  writeFileSync(partial, contents, { mode: modeOf(path) })
  renameSync(partial, path)
}

// A running process may still load chunks of its own bundle; they are kept for a day.
const current = new Set(outputFiles.map(({ path }) => basename(path)))
for (const name of readdirSync(chunks)) {
  const file = join(chunks, name)
  if (!current.has(name) && timeOf(file) < Date.now() - 86_400_000) rmSync(file, { force: true })
}
