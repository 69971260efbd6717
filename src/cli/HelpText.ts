/** Help as the library prints it, at the width of a terminal; the library aligns all descriptions in one wide table. */
import { stripVTControlCharacters } from "node:util"
import { program } from "./Arguments.ts"
import { widthOf } from "./Text.ts"

/** Where the reader is no terminal, which may be a pager. */
const usualColumns = 80

/** Words, and options in brackets as one word. */
const words = /\[[^\]]+\]\S*|\S+/g

/** Breaks a line between words; each line after the first is indented by `indent` more. A longer word has a line of its own. */
const wrap = (line: string, columns: number, indent = ""): string => {
  const [margin = ""] = /^ */.exec(line) ?? []
  const lines: Array<string> = []
  let current = ""
  for (const [word] of line.matchAll(words)) {
    const longer = current === "" ? margin + word : `${current} ${word}`
    if (current === "" || widthOf(stripVTControlCharacters(longer)) <= columns) current = longer
    else {
      lines.push(current)
      current = margin + indent + word
    }
  }
  return [...lines, current].join("\n")
}

/** Help of the command at `path`: its usage with the whole name, and each listed command above its description. */
export const toHelpText = (
  text: string,
  path: ReadonlyArray<string>,
  columns: number = usualColumns
): string =>
  text
    .replaceAll(/(?<=^ {2}- .*)\n\n(?= {2}- )/gm, "\n")
    .split("\n")
    .map((line) => {
      const [, listed, description = ""] = /^( {2}- .*?\S) {2,}(\S.*)$/.exec(line) ?? []
      if (listed !== undefined)
        return `${wrap(listed, columns, "        ")}\n${wrap(`      ${description}`, columns)}`
      return wrap(line.replace(/^\$ \S+/, `$ ${[program, ...path].join(" ")}`), columns, "  ")
    })
    .join("\n")
