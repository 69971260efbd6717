/**
 * Text as a reader of an issue sees it: without what is invisible, and with pasted encodings decoded, two inside each other. Replaces
 * what must not be visible in it.
 */

const lineBreak = /^[\r\v\f\u0085\u2028\u2029]/
/** `ESC[01;31m` and the like, and commands such as links, with their text. */
const terminalSequence =
  "\\u001b(?:\\[[0-?]*[ -/]*[@-~]|\\]([^\\u0007\\u001b\\r\\n]*)(?:\\u0007|\\u001b\\\\)|\\([0-~])"
/** Line breaks of any kind, what a terminal does not print, controls, format and other invisible characters, lone surrogates. */
const invisible = `\\r\\n?|[\\v\\f\\u0085\\u2028\\u2029]|${terminalSequence}|(?![\\t\\n])\\p{Cc}|[\\p{Cf}\\p{Default_Ignorable_Code_Point}]|\\p{Surrogate}`
const invisiblePattern = new RegExp(invisible, "gu")
const plainText = /^[\t\n -~]*$/

const visibleForm = (given: string): string => (lineBreak.test(given) ? "\n" : "")

/** The text with plain line breaks and without invisible characters. */
export const normaliseText = (text: string): string =>
  plainText.test(text) ? text : text.replace(invisiblePattern, visibleForm)

const hex = "[0-9A-Fa-f]"
/** JSON inside JSON has many. The look-behind keeps a search linear; a backslash after an escape character ends a command of a terminal. */
const slashes = "(?<!(?<!\\u001b)\\\\)\\\\+"
const byte = `(?:${slashes}x|%)`
const codes = new RegExp(
  // Most characters begin none.
  `(?=[\\\\%&^[]|[^\\t\\n -~])(?:${[
    // Sequences of a terminal whose escape character is written or lost.
    `(?:(?:\\^\\[|${slashes}(?:e|033))\\[[0-?]*[ -/]*[@-~]|\\[[0-9;]*[mK])+`,
    `(${[
      `${byte}[0-7]${hex}`,
      `(?:${slashes}|%)u${hex}{4}`,
      `${slashes}(?:[ux]\\{0*${hex}{1,6}\\}|U${hex}{8})`,
      `&#[xX]0*${hex}{1,6};`
    ].join("|")})`,
    `(${byte}[C-Fc-f]${hex}(?:${byte}[89ABab]${hex}){1,3})`,
    "&#0*([0-9]{1,7});",
    "&(amp|lt|gt|quot|apos|nbsp);",
    `${slashes}([bfnrtv!-/:-@\\[\\]^-\`{-~])`,
    // A dot above is what lower case in other languages leaves of the Turkish I.
    "([\\u0130\\u0131])|\\u0307",
    invisible
  ].join("|")})`,
  "gu"
)
const meanings: Readonly<Record<string, string>> = {
  ...{ amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: " " },
  ...{ b: "", f: "\n", n: "\n", r: "\n", t: "\t", v: "\n" },
  ...{ "\u0130": "i", "\u0131": "i" }
}
const characterOf = (code: number): string => (code <= 0x10ffff ? String.fromCodePoint(code) : "\uFFFD")

const meaningOf = (whole: string, ...groups: ReadonlyArray<string | undefined>): string => {
  const [digits, bytes, decimal, name, literal, dotted, command] = groups
  if (digits !== undefined) return characterOf(Number.parseInt(digits.replace(/^\W*[uUxX]?\{?/, ""), 16))
  if (bytes !== undefined) return Buffer.from(bytes.replace(/[\\x%]+/g, ""), "hex").toString()
  if (decimal !== undefined) return characterOf(Number(decimal))
  // The text of a terminal's command is read as long as something is encoded in it.
  const shown = command === undefined ? command : decode(command)
  if (shown !== command) return `\u001b]${shown}\u0007`
  const given = name ?? literal ?? dotted
  return given === undefined ? visibleForm(whole) : (meanings[given] ?? given)
}
const decode = (text: string, layer = written): string => text.replace(layer.codes, layer.meaningOf)

/** One of several encodings inside each other. */
interface Layer {
  readonly codes: RegExp
  readonly meaningOf: (whole: string, ...groups: ReadonlyArray<string | undefined>) => string
}
const written: Layer = { codes, meaningOf }
const escaped: Layer = {
  codes: /\\(?:u[0-9a-f]{4}|.)/g,
  meaningOf: (whole) => {
    const given = whole.slice(1)
    return given.length > 1 ? characterOf(Number.parseInt(given.slice(1), 16)) : (meanings[given] ?? given)
  }
}

/** What is decoded in a text, and in a text of JSON. */
export const textLayers = [written, written]
export const jsonLayers = [escaped, ...textLayers]

/** Units of a text from `start` to before `end`. */
interface Range {
  readonly start: number
  readonly end: number
}
/** Where a text holds what must not be visible. */
export type Find = (text: string) => ReadonlyArray<Range>

/** Every match of a global pattern, except for the pattern's group that matched, which begins the match. */
export const findPattern =
  (pattern: RegExp): Find =>
  (text) =>
    Array.from(text.matchAll(pattern), (match) => {
      const [whole, ...groups] = match
      const kept = groups.find((group) => group !== undefined) ?? ""
      return { start: match.index + kept.length, end: match.index + whole.length }
    })

/** The ranges of the text from which those of its decoded form come. */
const toSource = (
  text: string,
  { codes, meaningOf }: Layer,
  ranges: ReadonlyArray<Range>
): ReadonlyArray<Range> => {
  /** Where each unit of the decoded form is written. No meaning is longer than its code. Lists that grow cost ten times as much. */
  const starts = new Uint32Array(text.length)
  const ends = new Uint32Array(text.length)
  let units = 0
  const add = (start: number, end: number): void => {
    starts[units] = start
    ends[units] = end
    units += 1
  }
  let done = 0
  for (const match of text.matchAll(codes)) {
    const [whole, ...groups] = match
    for (; done < match.index; done += 1) add(done, done + 1)
    done += whole.length
    for (let left = meaningOf(whole, ...groups).length; left > 0; left -= 1) add(match.index, done)
  }
  for (; done < text.length; done += 1) add(done, done + 1)
  return ranges.map(({ end, start }) => ({ start: starts[start] ?? 0, end: ends[end - 1] ?? done }))
}

/** What is found in the text, and in what its encodings mean. */
const findVisible = (
  text: string,
  find: Find,
  [layer, ...inner]: ReadonlyArray<Layer>
): ReadonlyArray<Range> => {
  if (layer === undefined) return find(text)
  const decoded = decode(text, layer)
  // Nor would the same layer change it again.
  const others = inner.filter((one) => one !== layer)
  if (decoded === text) return findVisible(text, find, others)
  const inside = findVisible(decoded, find, inner)
  return inside.length === 0 ? find(text) : [...find(text), ...toSource(text, layer, inside)]
}

const replaceRanges = (text: string, ranges: ReadonlyArray<Range>, replacement: string): string => {
  let [replaced, done] = ["", 0]
  for (const { start, end } of ranges) {
    // Overlapping ranges are replaced once.
    if (start >= done) replaced += text.slice(done, start) + replacement
    done = Math.max(done, end)
  }
  return replaced + text.slice(done)
}

/** After so many rounds a text counts as made to be slow. A usual one is stable after the first. */
const mostRounds = 5

/**
 * Applies the step until the text no longer changes. Each round can prepare only one more match in a text of many, and costs as much as
 * the first: such a text becomes `givenUp`, which the step must not change.
 */
export const repeatUntilStable = (text: string, step: (text: string) => string, givenUp: string): string => {
  let before = text
  for (let round = 0; round < mostRounds; round += 1) {
    const after = step(before)
    if (after === before) return after
    before = after
  }
  return givenUp
}

/**
 * Replaces everything that is found in the text as it is written and as a reader sees it. All other text stays unchanged, with its
 * invisible characters. Repeated, since a replacement may create a new match.
 */
export const replaceVisible = (
  text: string,
  find: Find,
  replacement: string,
  layers: ReadonlyArray<Layer> = textLayers
): string =>
  repeatUntilStable(
    text,
    (given) =>
      replaceRanges(
        given,
        findVisible(given, find, layers).toSorted((one, other) => one.start - other.start),
        replacement
      ),
    replacement
  )
