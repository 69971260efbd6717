/** Writes .env.example and the table in docs/api.md from the table of settings. */
import { readFileSync, writeFileSync } from "node:fs"
import { renderApiPage, renderEnvExample } from "./settings/documents.ts"

const rewrite = (name: string, render: (current: string) => string): void => {
  const file = new URL(`../${name}`, import.meta.url)
  writeFileSync(file, render(readFileSync(file, "utf8")))
}

rewrite(".env.example", renderEnvExample)
rewrite("docs/api.md", renderApiPage)
process.stdout.write(".env.example and docs/api.md written\n")
