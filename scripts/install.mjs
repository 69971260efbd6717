// node scripts/install.mjs <folder>: copies what runs, and nothing else, into a folder: the bundle, package.json and the SQLite addon. It needs
// `npm ci` and `npm run build` before, and no package is downloaded. The folder is replaced as a whole; the one before stays as <folder>.previous.
// What is installed already is left as it is. After an interruption, run it again: only between two renames is there no <folder>.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs"
import { dirname, join, relative, resolve } from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("..", import.meta.url))
const target = process.argv[2] === undefined ? undefined : resolve(process.argv[2])

const giveUp = (reason) => {
  process.stderr.write(`${reason}\n`)
  process.exit(1)
}

/** The bundle, and the files that better-sqlite3 and its two packages load at run time. */
const bundle = ["dist/main.js", "dist/main.js.map", "dist/cli.js", "dist/cli.js.map", "dist/chunks"]
const addon = [
  "better-sqlite3/package.json",
  "better-sqlite3/LICENSE",
  "better-sqlite3/lib",
  "better-sqlite3/build/Release/better_sqlite3.node",
  "bindings/package.json",
  "bindings/LICENSE.md",
  "bindings/bindings.js",
  "file-uri-to-path/package.json",
  "file-uri-to-path/LICENSE",
  "file-uri-to-path/index.js"
].map((file) => `node_modules/${file}`)
const files = ["package.json", "LICENSE", ...bundle, ...addon]

if (target === undefined) giveUp("usage: node scripts/install.mjs <folder>")
const missing = files.filter((file) => !existsSync(join(root, file)))
if (missing.length > 0) giveUp(`${missing[0]} is missing: run npm ci && npm run build first`)
if (existsSync(target) && readdirSync(target).length > 0 && !existsSync(join(target, "dist/main.js")))
  giveUp(`${target} holds something else: name another folder`)

const [next, previous, old] = [`${target}.next`, `${target}.previous`, `${target}.old`]
for (const folder of [next, old]) rmSync(folder, { recursive: true, force: true })
for (const file of files) {
  mkdirSync(dirname(join(next, file)), { recursive: true })
  cpSync(join(root, file), join(next, file), { recursive: true, dereference: true })
}

const filesOf = (folder) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .sort()
const isSame = (one, other) => {
  const names = filesOf(one)
  return (
    names.join("\n") === filesOf(other).join("\n") &&
    names.every((name) => readFileSync(join(one, name)).equals(readFileSync(join(other, name))))
  )
}

if (existsSync(target) && isSame(next, target)) {
  // Installed already: the version before, to which a roll-back leads, stays.
  rmSync(next, { recursive: true })
  process.exit(0)
}
if (existsSync(target)) {
  if (existsSync(previous)) renameSync(previous, old)
  renameSync(target, previous)
}
renameSync(next, target)
rmSync(old, { recursive: true, force: true })
