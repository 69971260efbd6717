// Bundles src/main.ts into dist/main.js: one file starts three times as fast as the modules one by one.
// With --if-possible (before `npm start`) an installation without development packages keeps the bundle it came with.
import { existsSync } from "node:fs"

const outfile = "dist/main.js"
const esbuild = await import("esbuild").catch(() => undefined)

if (esbuild === undefined) {
  if (process.argv.includes("--if-possible") && existsSync(outfile)) process.exit(0)
  process.stderr.write(
    `esbuild is not installed and ${outfile} is missing: run npm ci && npm run build first\n`
  )
  process.exit(1)
}

await esbuild.build({
  entryPoints: ["src/main.ts"],
  outfile,
  bundle: true,
  // Less to read at the start; names stay, for stacks and spans.
  minifyWhitespace: true,
  minifySyntax: true,
  platform: "node",
  target: "node20",
  format: "esm",
  sourcemap: true,
  sourcesContent: false,
  legalComments: "none",
  // A native addon cannot be bundled.
  external: ["better-sqlite3"],
  // Some bundled packages are CommonJS and call require.
  banner: {
    js: [
      "#!/usr/bin/env node",
      'import { createRequire as __createRequire } from "node:module"',
      "const require = __createRequire(import.meta.url)"
    ].join("\n")
  },
  logLevel: "warning"
})
