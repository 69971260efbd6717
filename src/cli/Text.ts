/** Text for a terminal: what others wrote cannot move its cursor, change its colours or turn its reading direction. */

/** Controls, formats such as bidirectional marks, and separators of lines. */
const controls = /[\p{Cc}\p{Cf}\u2028\u2029]/gu

const escapeOf = (character: string): string => {
  const code = character.codePointAt(0) ?? 0
  return code < 0x100
    ? `\\x${code.toString(16).padStart(2, "0")}`
    : `\\u${code.toString(16).padStart(4, "0")}`
}

/** On one line: line ends and tabs become spaces, everything else that does not show is written out, as `\x1b`. */
export const oneLine = (text: string): string =>
  text
    .replaceAll(/\r\n?|\n|\t/g, " ")
    .replaceAll(controls, escapeOf)
    .trim()

/** Line by line, the lines kept. */
export const manyLines = (text: string): ReadonlyArray<string> =>
  text.split(/\r\n?|\n/).map((line) => line.replaceAll("\t", "    ").replaceAll(controls, escapeOf))

const segments = new Intl.Segmenter("en", { granularity: "grapheme" })

const wide =
  /\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]/u
const plain = /^[\x20-\x7e]*$/

/** Columns that a terminal takes for it. */
export const widthOf = (text: string): number =>
  plain.test(text)
    ? text.length
    : [...segments.segment(text)].reduce((sum, { segment }) => sum + (wide.test(segment) ? 2 : 1), 0)

/** At most so many columns, the last of them `…` when something is cut off. */
export const truncated = (text: string, columns: number): string => {
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

export const padded = (text: string, columns: number): string =>
  text + " ".repeat(Math.max(0, columns - widthOf(text)))

/** ISO, UTC, to the second: `2026-11-21T07:30:00Z`. */
export const instant = (milliseconds: number): string =>
  new Date(milliseconds).toISOString().replace(/\.\d{3}Z$/, "Z")

const units = ["B", "kB", "MB", "GB", "TB"]

/** `12 B`, `3.4 MB`. */
export const bytesText = (bytes: number): string => {
  let value = bytes
  let unit = 0
  while (value >= 1_000 && unit < units.length - 1) {
    value /= 1_000
    unit += 1
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`
}

/** `1 report`, `2 reports`. */
export const counted = (count: number, one: string, many = `${one}s`): string =>
  `${count} ${count === 1 ? one : many}`

/** Characters that JSON lets stand, and a terminal does not. */
const unsafeInJson = /[\p{Cf}\u007f-\u009f\u2028\u2029]/gu

const unitEscapes = (character: string): string =>
  Array.from(
    { length: character.length },
    (_, index) => `\\u${character.charCodeAt(index).toString(16).padStart(4, "0")}`
  ).join("")

/** JSON that means the same and is harmless on a terminal. */
export const jsonText = (value: unknown, indent?: number): string =>
  JSON.stringify(value, null, indent).replaceAll(unsafeInJson, unitEscapes)
