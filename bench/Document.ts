/** The generated sections of docs/performance.md: each is between two markers, and the text around them is written by hand. */
import { readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"

const file = fileURLToPath(new URL("../docs/performance.md", import.meta.url))

export type Section = "machine" | "operations" | "ratios" | "open-loop" | "start"

export const writeSection = (section: Section, text: string): void => {
  const begin = `<!-- bench: ${section} -->`
  const end = "<!-- bench: end -->"
  const document = readFileSync(file, "utf8")
  const from = document.indexOf(begin)
  const to = document.indexOf(end, from)
  if (from === -1 || to === -1) throw new Error(`docs/performance.md lacks the markers of ${section}`)
  writeFileSync(file, `${document.slice(0, from)}${begin}\n\n${text}\n\n${document.slice(to)}`)
}
