/** Writes .env.example and the table in docs/settings.md from the table of settings. */
import { readFileSync, writeFileSync } from "node:fs"
import { renderSettingsPage, renderEnvExample } from "./settings/documents.ts"

const rewrite = (name: string, render: (current: string) => string): void => {
  const file = new URL(`../${name}`, import.meta.url)
  writeFileSync(file, render(readFileSync(file, "utf8")))
}

rewrite(".env.example", renderEnvExample)
rewrite("docs/settings.md", renderSettingsPage)
process.stdout.write(".env.example and docs/settings.md written\n")
