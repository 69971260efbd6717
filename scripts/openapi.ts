/**
 * Writes docs/openapi.json from the contract. With `--release` it also becomes docs/openapi.released.json, the document
 * that later changes are compared with: to be done when a version is released, and never to get around a break.
 */
import { writeFileSync } from "node:fs"
import { openApi } from "../src/http/openapi/OpenApiDocument.ts"

const text = `${JSON.stringify(openApi(), null, 2)}\n`
const files = ["openapi.json", ...(process.argv.includes("--release") ? ["openapi.released.json"] : [])]
for (const file of files) writeFileSync(new URL(`../docs/${file}`, import.meta.url), text)
process.stdout.write(`${files.map((file) => `docs/${file}`).join(" and ")} written\n`)
