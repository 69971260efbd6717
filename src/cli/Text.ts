/** Text for a terminal: text of callers cannot move the cursor, change colours or reverse the reading direction. */

/** Control characters, format characters such as bidirectional marks, and line separators. */
const controls = /[\p{Cc}\p{Cf}\u2028\u2029]/gu

const escapeOf = (character: string): string => {
  const code = character.codePointAt(0) ?? 0
  return code < 0x100
    ? `\\x${code.toString(16).padStart(2, "0")}`
    : `\\u${code.toString(16).padStart(4, "0")}`
}

/** Turns line ends and tabs into spaces, and escapes other invisible characters, as `\x1b`. */
export const toSingleLine = (text: string): string =>
  text
    .replaceAll(/\r\n?|\n|\t/g, " ")
    .replaceAll(controls, escapeOf)
    .trim()

/** Splits text into lines and escapes their invisible characters. */
export const toLines = (text: string): ReadonlyArray<string> =>
  text.split(/\r\n?|\n/).map((line) => line.replaceAll("\t", "    ").replaceAll(controls, escapeOf))

const segments = new Intl.Segmenter("en", { granularity: "grapheme" })

const wide =
  /\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]/u
const plain = /^[\x20-\x7e]*$/

/** Columns of the text on a terminal. */
export const widthOf = (text: string): number =>
  plain.test(text)
    ? text.length
    : [...segments.segment(text)].reduce((sum, { segment }) => sum + (wide.test(segment) ? 2 : 1), 0)

/** Cuts text to a number of columns; the last one is `…` when text is cut. */
export const truncate = (text: string, columns: number): string => {
  if (widthOf(text) <= columns) return text
  let kept = ""
  let width = 1
  for (const { segment } of segments.segment(text)) {
    width += widthOf(segment)
    if (width > columns) break
    kept += segment
  }
  return `${kept}…`
}

export const pad = (text: string, columns: number): string =>
  text + " ".repeat(Math.max(0, columns - widthOf(text)))

/** ISO, UTC, to the second: `2026-11-21T07:30:00Z`. */
export const formatTime = (milliseconds: number): string =>
  new Date(milliseconds).toISOString().replace(/\.\d{3}Z$/, "Z")

const units = ["B", "kB", "MB", "GB", "TB"]

/** `12 B`, `3.4 MB`. */
export const formatBytes = (bytes: number): string => {
  let value = bytes
  let unit = 0
  while (value >= 1_000 && unit < units.length - 1) {
    value /= 1_000
    unit += 1
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`
}

/** `1 report`, `2 reports`. */
export const formatCount = (count: number, one: string, many = `${one}s`): string =>
  `${count} ${count === 1 ? one : many}`

/** Characters that JSON allows unescaped and that affect a terminal. */
const unsafeInJson = /[\p{Cf}\u007f-\u009f\u2028\u2029]/gu

const unitEscapes = (character: string): string =>
  Array.from(
    { length: character.length },
    (_, index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`
  ).join("")

/** Equivalent JSON without characters that affect a terminal. */
export const toSafeJson = (value: unknown, indent?: number): string =>
  JSON.stringify(value, null, indent).replaceAll(unsafeInJson, unitEscapes)
