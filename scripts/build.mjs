// Bundles the server (dist/main.js) and the command line (dist/cli.js): bundled, they start three times as fast as module
// by module. What only some runs need goes into chunks that are loaded when they are used.
// --if-needed (before `npm start` and before a command): nothing is done when the bundle was made of these sources, or there are none; and
// where no bundle can be made (no development packages, a read-only folder), the bundle that is there is kept.
import { createHash } from "node:crypto"
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync
} from "node:fs"
import { basename, dirname, isAbsolute, join, relative } from "node:path"
import { fileURLToPath } from "node:url"

const entries = { main: "src/main.ts", cli: "src/cli/main.ts" }
const bundles = Object.keys(entries).map((name) => `dist/${name}.js`)
const chunks = "dist/chunks"
/** Holds the digest of the sources that the bundle was made of. */
const stamp = "dist/sources.sha256"
// All sources of the two entries; the command line starts the sandbox.
const sources = ["src", "sandbox"]
const partOfUndici = fileURLToPath(new URL("undici.cjs", import.meta.url))
const pagesBundler = fileURLToPath(new URL("pages.mjs", import.meta.url))
const isOptional = process.argv.includes("--if-needed")

const isThere = bundles.every((file) => existsSync(file))
const hasSources = sources.every((folder) => existsSync(folder))

/** Of names and contents. Times say nothing: archives, images and clones set them anew. */
const digestSources = () => {
  const files = sources
    .flatMap((folder) => readdirSync(folder, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
    .concat("package.json", "package-lock.json", fileURLToPath(import.meta.url), partOfUndici, pagesBundler)
    .filter((file) => existsSync(file))
  const hash = createHash("sha256")
  for (const file of files) {
    const content = readFileSync(file)
    // The folder of the project is not part of a name: it may be moved.
    hash.update(`${isAbsolute(file) ? basename(file) : file} ${content.length}\n`).update(content)
  }
  return hash.digest("hex")
}

const giveUp = (reason) => {
  if (isOptional && isThere) {
    process.stderr.write(`${reason}: dist stays older than its sources\n`)
    process.exit(0)
  }
  process.stderr.write(`${reason}: run npm ci && npm run build first\n`)
  process.exit(1)
}

if (isOptional && isThere && !hasSources) process.exit(0)
const digest = hasSources ? digestSources() : giveUp("src or sandbox is missing")
if (isOptional && isThere && existsSync(stamp) && readFileSync(stamp, "utf8") === digest) process.exit(0)

const cannotBeWritten = (error) => giveUp(`dist cannot be written (${error.code})`)

if (isOptional && isThere)
  try {
    accessSync("dist", constants.W_OK)
  } catch (error) {
    cannotBeWritten(error)
  }

const esbuild = await import("esbuild").catch(() => giveUp("esbuild is not installed"))

/** Errors of the sources are printed already. Without any, esbuild itself does not run, such as one for another platform. */
const reportFailure = ({ errors = [] }) => {
  if (errors.length > 0) process.exit(1)
  giveUp("esbuild does not run")
}

const options = {
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
    },
    {
      name: "pages",
      setup: (plugin) =>
        plugin.onLoad({ filter: /[/\\]sandbox[/\\]ConsolePage\.ts$/ }, async () => {
          const { bundlePage } = await import("./pages.mjs")
          return { contents: `export const loadPage = async () => (${JSON.stringify(await bundlePage())})` }
        })
    }
  ],
  // src/schema/Release.ts; not the commit, because images are built without git, and a working tree may differ from it.
  define: { MUSIC_BUILD: JSON.stringify(digest.slice(0, 12)) },
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
}

const { outputFiles } = await esbuild.build(options).catch(reportFailure)

// Each file is written atomically, and the entries last: a process may start from here at any time.
const isEntry = ({ path }) => dirname(path) !== join(process.cwd(), chunks)
// npm makes a bin executable when it installs the package, but not when the file is built anew.
const modeOf = (path) => (bundles.includes(relative(process.cwd(), path)) ? 0o755 : 0o644)
const writeAtomically = (path, contents, mode) => {
  const partial = `${path}.${process.pid}`
  writeFileSync(partial, contents, { mode })
  renameSync(partial, path)
}
try {
  mkdirSync(chunks, { recursive: true })
  for (const { contents, path } of outputFiles.toSorted((one, other) => isEntry(one) - isEntry(other))) {
    writeAtomically(path, contents, modeOf(path))
  }
  writeAtomically(stamp, digest, 0o644)
} catch (error) {
  cannotBeWritten(error)
}

// No file of an older build stays, because npm would pack it. A running process has loaded its chunks, except that of /docs, when it started.
const current = new Set([stamp, ...outputFiles.map(({ path }) => relative(process.cwd(), path))])
/** A file that another build may be writing at this moment. */
const isPartial = (file) =>
  /\.\d+$/.test(file) && (statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0) > Date.now() - 60_000
const isOfServer = (file) => /\.(?:js|js\.map|sha256)(?:\.\d+)?$/.test(file)
for (const folder of ["dist", chunks])
  for (const file of readdirSync(folder).map((name) => join(folder, name)))
    if (isOfServer(file) && !current.has(file) && !isPartial(file)) rmSync(file, { force: true })
