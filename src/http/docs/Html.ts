/** Safe HTML templates: every inserted value is escaped, unless it is HTML itself. */
import * as Data from "effect/Data"

/** Text that is already HTML. */
export class Html extends Data.Class<{ readonly text: string }> {}

export type Part = Html | string | number | ReadonlyArray<Part>

const escapes: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;"
}

const textOf = (part: Part): string => {
  if (typeof part === "string") return part.replace(/[&<>"']/g, (character) => escapes[character] ?? "")
  if (typeof part === "number") return String(part)
  return part instanceof Html ? part.text : part.map(textOf).join("")
}

export const html = (strings: TemplateStringsArray, ...parts: ReadonlyArray<Part>): Html =>
  new Html({ text: strings.map((text, index) => text + textOf(parts[index] ?? "")).join("") })

/** Empty HTML. */
export const none = html``

/** Text of the document; text between backticks becomes code. */
export const prose = (text: string): ReadonlyArray<Html> =>
  text.split("`").map((piece, index) => (index % 2 === 1 ? html`<code>${piece}</code>` : html`${piece}`))
