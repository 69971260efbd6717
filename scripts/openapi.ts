/** Writes docs/openapi.json, and the examples of docs/api.md. */
import { readFileSync, writeFileSync } from "node:fs"
import * as OpenApi from "@effect/platform/OpenApi"
import { Api } from "../src/http/Api.ts"
import { renderExamples } from "./openapi/examples.ts"

const inDocs = (name: string): URL => new URL(`../docs/${name}`, import.meta.url)

writeFileSync(inDocs("openapi.json"), `${JSON.stringify(OpenApi.fromApi(Api), null, 2)}\n`)
writeFileSync(inDocs("api.md"), renderExamples(readFileSync(inDocs("api.md"), "utf8")))
process.stdout.write("docs/openapi.json and docs/api.md written\n")
