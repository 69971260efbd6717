// Bundles the server (dist/main.js) and the command line (dist/cli.js): bundled, they start three times as fast as module
// by module. What only some runs need goes into chunks that are loaded when they are used.
// --if-needed (before `npm start` and before a command): nothing is done when no source is newer than the bundle; and where no bundle can
// be made (no development packages, a read-only folder), the bundle that is there is kept.
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import { fileURLToPath } from "node:url"

const entries = { main: "src/main.ts", cli: "src/cli/main.ts" }
const bundles = Object.keys(entries).map((name) => `dist/${name}.js`)
const chunks = "dist/chunks"
// All sources of the two entries; the command line starts the sandbox.
const sources = ["src", "sandbox"]
const partOfUndici = fileURLToPath(new URL("undici.cjs", import.meta.url))
const isOptional = process.argv.includes("--if-needed")

const timeOf = (file) => statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0
const isThere = bundles.every((file) => existsSync(file))

/** The time of a folder changes when a source is removed. */
const newestSource = () =>
  sources
    .flatMap((folder) => readdirSync(folder, { recursive: true, withFileTypes: true }))
    .map((entry) => join(entry.parentPath, entry.name))
    .concat(sources, ["package.json", "package-lock.json", "scripts/build.mjs"])
    .reduce((newest, file) => Math.max(newest, timeOf(file)), 0)

if (isOptional && isThere)
  if (!existsSync("src") || newestSource() < Math.min(...bundles.map(timeOf))) process.exit(0)

const giveUp = (reason) => {
  if (isOptional && isThere) {
    process.stderr.write(`${reason}: dist stays older than its sources\n`)
    process.exit(0)
  }
  process.stderr.write(`${reason}: run npm ci && npm run build first\n`)
  process.exit(1)
}

const esbuild = await import("esbuild").catch(() => giveUp("esbuild is not installed"))

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
  plugins: [
    {
      name: "undici",
      setup: (plugin) => plugin.onResolve({ filter: /^undici$/ }, () => ({ path: partOfUndici }))
    }
  ],
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
const isEntry = ({ path }) => dirname(path) !== join(process.cwd(), chunks)
// npm makes a bin executable when it installs the package, but not when the file is built anew.
const modeOf = (path) => (bundles.includes(relative(process.cwd(), path)) ? 0o755 : 0o644)
try {
  mkdirSync(chunks, { recursive: true })
  for (const { contents, path } of outputFiles.toSorted((one, other) => isEntry(one) - isEntry(other))) {
    const partial = `${path}.${process.pid}`
    writeFileSync(partial, contents, { mode: modeOf(path) })
    renameSync(partial, path)
  }
} catch (error) {
  giveUp(`dist cannot be written (${error.code})`)
}

// No file of an older build stays, because npm would pack it. A running process has loaded its chunks when it started.
const current = new Set(outputFiles.map(({ path }) => relative(process.cwd(), path)))
/** A file that another build may be writing at this moment. */
const isPartial = (file) => /\.\d+$/.test(file) && timeOf(file) > Date.now() - 60_000
const isOfServer = (file) => /\.js(?:\.map)?(?:\.\d+)?$/.test(file)
for (const folder of ["dist", chunks])
  for (const file of readdirSync(folder).map((name) => join(folder, name)))
    if (isOfServer(file) && !current.has(file) && !isPartial(file)) rmSync(file, { force: true })
