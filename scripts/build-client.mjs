// Bundles the client into <out> (default dist/client) and writes its declarations beside it:
//   index.js   promise client for Node and browsers; Effect is inside, nothing needs to be installed
//   node.js    file store and lock for Node
//   effect.js  the client as an Effect service; shares the program's own effect and @effect/platform
// --no-types leaves the declarations out.
import { spawnSync } from "node:child_process"
import { readdir, readFile, writeFile } from "node:fs/promises"
import { createRequire } from "node:module"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { build } from "esbuild"

const { values } = parseArgs({
  options: { out: { type: "string", default: "dist/client" }, types: { type: "boolean", default: true } },
  allowNegative: true
})

const common = {
  bundle: true,
  format: "esm",
  target: "es2022",
  legalComments: "none",
  logLevel: "warning",
  outdir: values.out
}

await Promise.all([
  build({ ...common, entryPoints: ["client/index.ts"], platform: "browser", minify: true }),
  build({ ...common, entryPoints: ["client/node.ts"], platform: "node" }),
  build({
    ...common,
    entryPoints: ["client/effect.ts"],
    platform: "neutral",
    external: ["effect", "effect/*", "@effect/platform", "@effect/platform/*"]
  })
])

if (values.types) {
  const compiler = createRequire(import.meta.url).resolve("typescript/bin/tsc")
  const { status } = spawnSync(
    process.execPath,
    [compiler, "-p", "tsconfig.client.json", "--outDir", `${values.out}/types`],
    { stdio: "inherit" }
  )
  if (status !== 0) process.exit(status ?? 1)
  // The compiler keeps `.ts` endings in declarations; consumers need `.js`.
  const types = join(values.out, "types")
  const files = (await readdir(types, { recursive: true })).filter((name) => name.endsWith(".d.ts"))
  await Promise.all(
    files.map(async (name) => {
      const path = join(types, name)
      const text = await readFile(path, "utf8")
      await writeFile(path, text.replace(/((?:from|import)\s*\(?\s*"\.[^"]*)\.ts"/g, '$1.js"'))
    })
  )
}
