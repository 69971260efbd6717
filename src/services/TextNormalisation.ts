/** The replacement of what must not be visible in a text, as it is written and as its readers see it. */
import { readText } from "./TextReading.ts"

const lineBreak = /^(?:\r|[\v\f\u0085\u2028\u2029])/
const loneSurrogate = /^\p{Surrogate}/u
/** `ESC[01;31m` and the like, and commands such as links, with their text. */
const terminalSequence = "\\x1B(?:\\[[0-?]*[ -/]*[@-~]|\\][^\\x07\\x1B\\r\\n]*(?:\\x07|\\x1B\\\\)|\\([0-~])"
/** Line breaks of any kind, what a terminal does not print, controls, format and other invisible characters, lone surrogates. */
const invisible = new RegExp(
  `\\r\\n?|[\\v\\f\\u0085\\u2028\\u2029]|${terminalSequence}|(?![\\t\\n])\\p{Cc}|[\\p{Cf}\\p{Default_Ignorable_Code_Point}]|\\p{Surrogate}`,
  "gu"
)
const plainText = /^[\t\n -~]*$/

const visibleForm = (given: string): string =>
  lineBreak.test(given) ? "\n" : loneSurrogate.test(given) ? "\uFFFD" : ""

/** The text with plain line breaks and without invisible characters. */
export const normaliseText = (text: string): string =>
  plainText.test(text) ? text : text.replace(invisible, visibleForm)

/** Units of a text from `start` to before `end`. */
export interface Range {
  readonly start: number
  readonly end: number
}
/** Where a text holds what must not be visible. */
export type Find = (text: string) => ReadonlyArray<Range>

/** Every match of a global pattern, except for the pattern's group that matched, which begins the match. */
export const findPattern =
  (pattern: RegExp): Find =>
  (text) => {
    const ranges: Array<Range> = []
    // `matchAll` copies the pattern, which takes longer than a search of a short text.
    pattern.lastIndex = 0
    for (let match = pattern.exec(text); match !== null; match = pattern.exec(text)) {
      const [whole, ...groups] = match
      const kept = groups.find((group) => group !== undefined) ?? ""
      ranges.push({ start: match.index + kept.length, end: match.index + whole.length })
    }
    return ranges
  }

const replaceRanges = (text: string, ranges: ReadonlyArray<Range>, replacement: string): string => {
  const pieces: Array<string> = []
  let done = 0
  for (const { start, end } of ranges) {
    // Overlapping ranges are replaced once.
    if (start >= done) pieces.push(text.slice(done, start), replacement)
    done = Math.max(done, end)
  }
  return pieces.join("") + text.slice(done)
}

/** Searches all readings at once: one that decodes less may match only the beginning of a credential. */
const replaceOnce = (text: string, find: Find, replacement: string): string => {
  const decoded = readText(text).flatMap((reading) =>
    find(reading.text).map(({ start, end }) => ({
      start: reading.rangeOf(start).start,
      end: reading.rangeOf(end - 1).end
    }))
  )
  const ranges = [...find(text), ...decoded]
  return ranges.length === 0
    ? text
    : replaceRanges(
        text,
        ranges.sort((one, other) => one.start - other.start),
        replacement
      )
}

/** Applies the step until the text no longer changes. */
export const repeatUntilStable = (text: string, step: (text: string) => string): string => {
  let before = text
  let after = step(before)
  while (after !== before) {
    before = after
    after = step(before)
  }
  return after
}

/**
 * Replaces everything that is found in the text as it is written and as a reader sees it. All other text stays unchanged, with its
 * invisible characters. Repeated, since a replacement may create a new match; every round leaves less of the source.
 */
export const replaceVisible = (text: string, find: Find, replacement: string): string =>
  repeatUntilStable(text, (given) => replaceOnce(given, find, replacement))
