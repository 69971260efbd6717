/** The fenced shell blocks of the documents. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { root } from "../world/Fleet.ts"

/** Commands that another part of CI runs. */
const elsewhere = new Set(["npm ci", "npm test", "npm cit", "npm run sandbox -- --walk"])

/** A block without its comments and without the commands that run elsewhere. */
const remaining = (text: string): string =>
  text
    .split("\n")
    .map((line) =>
      line
        .replace(/(^| +)#.*$/, "")
        .split(" && ")
        .filter((command) => !elsewhere.has(command.trim()))
    )
    .map((commands) => commands.join(" && "))
    .filter((line) => line.trim() !== "")
    .join("\n")

/** The commands below a heading, as in "operations.md: Backup", one script for each block. */
export const scripts = (place: string): ReadonlyArray<string> => {
  const [document = "", heading = ""] = place.split(": ")
  const text = readFileSync(join(root, document === "README.md" ? document : `docs/${document}`), "utf8")
  const section = text.split(/^#+ /m).find((part) => part.startsWith(`${heading}\n`)) ?? ""
  return [...section.matchAll(/^```sh\n([\s\S]*?)^```/gm)]
    .map(([, block = ""]) => remaining(block))
    .filter((script) => script !== "")
}

/** The only script of a place. */
export const scriptOf = (place: string): string => {
  const [script, ...others] = scripts(place)
  if (script === undefined || others.length > 0)
    throw new Error(`${place} has ${scripts(place).length} scripts`)
  return script
}
