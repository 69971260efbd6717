/** The two documents of settings as text: .env.example, and the table in docs/settings.md. */
import { type SettingEntry, settingEntries } from "../../src/services/settings/SettingsTable.ts"

const width = 120

const sentences = ({ meaning }: SettingEntry): string =>
  `${meaning.slice(0, 1).toUpperCase()}${meaning.slice(1)}.`

/** Comment lines of a shell. */
const comment = (text: string): ReadonlyArray<string> => {
  const lines: Array<string> = []
  let line = "#"
  for (const word of text.replaceAll("`", "").split(" ")) {
    if (line.length + 1 + word.length > width) {
      lines.push(line)
      line = "#"
    }
    line += ` ${word}`
  }
  return [...lines, line]
}

const title = `# --- settings `.padEnd(width, "-")

/** .env.example with its settings replaced; the text above them stays. */
export const renderEnvExample = (current: string): string => {
  const lines = settingEntries.flatMap((entry) => [
    ...comment(sentences(entry)),
    `${entry.required === true ? "" : "# "}${entry.name}='${entry.default ?? ""}'`
  ])
  return [current.slice(0, current.indexOf("# --- ")) + title, ...lines, ""].join("\n")
}

const defaultCell = (entry: SettingEntry): string => {
  if (entry.required === true) return "required"
  return entry.default === undefined ? "" : `\`${entry.default}\``
}

const startMark = "<!-- settings: written by `npm run settings` -->"
const endMark = "<!-- end of settings -->"

/** docs/settings.md with its table of settings replaced; the text outside the two marks stays. */
export const renderSettingsPage = (current: string): string => {
  const rows = settingEntries.map((entry) =>
    ["", `\`${entry.name}\``, defaultCell(entry), sentences(entry), ""].join(" | ").trim()
  )
  return [
    current.slice(0, current.indexOf(startMark) + startMark.length),
    "",
    "| Name | Default | Meaning |",
    "|---|---|---|",
    ...rows,
    "",
    current.slice(current.indexOf(endMark))
  ].join("\n")
}
