/** Writes docs/openapi.json from the contract. */
import { writeFileSync } from "node:fs"
import { openApi } from "../src/http/openapi/OpenApiDocument.ts"

const path = "docs/openapi.json"
writeFileSync(new URL(`../${path}`, import.meta.url), `${JSON.stringify(openApi(), null, 2)}\n`)
process.stdout.write(`${path} written\n`)
