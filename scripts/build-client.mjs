// Builds the client's package, `music-client`, into <out> (default dist/client). The folder is emptied first.
//   index      promise client for Node and browsers; nothing needs to be installed
//   node       file store and lock for Node
//   telemetry  the queue of a client's events
//   effect     the client as an Effect service; shares the program's own effect and @effect/platform
// Each entry point is an ES module, with a file for CommonJS that requires it, and has declarations for both.
// --no-types leaves the declarations out. The default folder is also linked as node_modules/music-client, for the examples.
import { mkdir } from "node:fs/promises"
import { relative, resolve } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { writeBundles } from "./client/bundles.mjs"
import { writeDeclarations } from "./client/declarations.mjs"
import { emptyPackage, linkPackage, writePackageFiles } from "./client/package.mjs"

const root = fileURLToPath(new URL("..", import.meta.url))
const standard = resolve(root, "dist/client")

const { values } = parseArgs({
  options: { out: { type: "string", default: standard }, types: { type: "boolean", default: true } },
  allowNegative: true
})
const out = resolve(values.out)
// npm starts this from the package's own folder; the paths of the sources are relative to the clone.
process.chdir(root)

await import("./client/contract.mjs")
await mkdir(out, { recursive: true })
await emptyPackage(out, out === standard)
const libraries = await writeBundles(out)
await writePackageFiles(out, libraries)
if (values.types) await writeDeclarations(out)
if (out === standard) await linkPackage(relative(resolve("node_modules"), out))
