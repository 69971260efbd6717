/**
 * Text as a reader of an issue sees it, and the replacement of what must not be visible there. Readers lose invisible characters and
 * decode pasted encodings, so the search does both.
 */
import { decodeHTMLStrict } from "entities/decode"

const lineBreak = /^(?:\r|[\v\f\u0085\u2028\u2029])/
const loneSurrogate = /^\p{Surrogate}/u
/** Line breaks of any kind, controls, format and other invisible characters, lone surrogates. */
const invisible =
  /\r\n?|[\v\f\u0085\u2028\u2029]|(?![\t\n])\p{Cc}|[\p{Cf}\p{Default_Ignorable_Code_Point}]|\p{Surrogate}/gu

const visibleForm = (given: string): string =>
  lineBreak.test(given) ? "\n" : loneSurrogate.test(given) ? "\uFFFD" : ""

/** ASCII without a character that begins an encoded one, as most texts are. */
const plainText = /^[\t\n -$'-[\]-~]*$/

/** Whether a reader sees the text exactly as it is: nothing in it is invisible or encoded. */
export const isPlainText = (text: string): boolean => plainText.test(text)

/** The text with plain line breaks and without invisible characters. */
export const normaliseText = (text: string): string =>
  isPlainText(text) ? text : text.replace(invisible, visibleForm)

const characterOf = (code: number): string => (code <= 0x10ffff ? String.fromCodePoint(code) : "\uFFFD")

interface Encoding {
  /** Matches one encoded character. Every run of backslashes or `amp;` is tried once, so that the search is linear. */
  readonly pattern: RegExp
  readonly decode: (match: string) => string
}

const escapes: Readonly<Record<string, string>> = { b: "\b", f: "\n", n: "\n", r: "\n", t: "\t", v: "\n" }
const hex = "[0-9a-fA-F]"
/** Half of a pair is decoded only together with its other half, which another encoding may still hide. */
const wholeUnit = `u(?![dD][89a-fA-F])${hex}{4}`
const digitsAfterU = /[ux](?:([0-9a-f]{2,4})|\{([0-9a-f]+))/gi
const decodeCodes = (match: string): string =>
  [...match.matchAll(digitsAfterU)]
    .map(([, digits = "", inBraces = digits]) => characterOf(Number.parseInt(inBraces, 16)))
    .join("")
/** Backslash escapes, also of JSON inside JSON, and the escaped punctuation of Markdown. */
const backslashes: Encoding = {
  pattern: new RegExp(
    `(?<!\\\\)\\\\+(?:u[dD][89abAB]${hex}{2}\\\\+u[dD][c-fC-F]${hex}{2}|${wholeUnit}|u\\{0*${hex}{1,6}\\}|x${hex}{2}|[bfnrtv]|[!-/:-@\\[\\]-\`{-~])`,
    "g"
  ),
  decode: (match) => {
    const last = match.slice(-1)
    return decodeCodes(match) || (escapes[last] ?? last)
  }
}
/**
 * The same as another reader decodes them: only the last backslash belongs to a code, and none to a percent code or reference, which
 * may hide the letter of an escape.
 */
const separateBackslashes: Encoding = {
  pattern: new RegExp(
    `\\\\(?:u[dD][89abAB]${hex}{2}\\\\+u[dD][c-fC-F]${hex}{2}|${wholeUnit}|u\\{0*${hex}{1,6}\\}|x${hex}{2})|(?<!\\\\)\\\\+[bfnrtv!-$'-/:-@[\\]-\`{-~]`,
    "g"
  ),
  decode: backslashes.decode
}
const separable = /\\(?:\\[ux]|[%&])/
/** Percent codes of UTF-8, and of UTF-16 by JavaScript's `escape`; also encoded twice. */
const percentCodes: Encoding = {
  pattern:
    /%(?:25)*(?:[0-7][0-9a-f]|[cd][0-9a-f]%(?:25)*[89ab][0-9a-f]|e[0-9a-f](?:%(?:25)*[89ab][0-9a-f]){2}|f[0-7](?:%(?:25)*[89ab][0-9a-f]){3}|ud[89ab][0-9a-f]{2}%(?:25)*ud[c-f][0-9a-f]{2}|u(?!d[89a-f])[0-9a-f]{4})/gi,
  decode: (match) =>
    decodeCodes(match) || Buffer.from(match.replace(/%(?:25)*(?=[0-9a-f]{2})/gi, ""), "hex").toString("utf8")
}
/** What the names of HTML show, as far as they were decoded: there are 2,231. */
const shownByName = new Map<string, string>()
const decodeName = (name: string): string | undefined => {
  const known = shownByName.get(name)
  if (known !== undefined) return known
  const reference = `&${name};`
  const shown = decodeHTMLStrict(reference)
  if (shown === reference) return undefined
  shownByName.set(name, shown)
  return shown
}
/** Some readers ignore the case of names. */
const characterNamed = (name: string): string | undefined =>
  decodeName(name) ?? (/[A-Z]/.test(name) ? decodeName(name.toLowerCase()) : undefined)

/** Names that are also read without a semicolon. Shorter ones begin the names of URL parameters. */
const openNames =
  "colon|lowbar|UnderBar|quot|nbsp|shy|zwn?j|lrm|rlm|NoBreak|Invisible(?:Times|Comma)|ApplyFunction|ZeroWidthSpace|Negative(?:VeryThin|Thin|Medium|Thick)Space"
const decodeReference = (match: string): string => {
  const [, code, name = ""] = /(?:#(x?[0-9a-f]+)|([a-z][a-z0-9]*));?$/i.exec(match) ?? []
  return code === undefined
    ? (characterNamed(name) ?? match)
    : characterOf(Number(code.toLowerCase().startsWith("x") ? `0${code}` : code))
}
const characterReferences: Encoding = {
  pattern: /&(?:amp;)*(?:#x0*[0-9a-f]{1,6}|#0*[0-9]{1,7}|[a-z][a-z0-9]{1,30});/gi,
  decode: decodeReference
}
/** Also without a semicolon, as browsers read them. Tried where nothing else is encoded: the semicolon may be. */
const openReferences: Encoding = {
  pattern: new RegExp(`&(?:amp;)*(?:#x0*[0-9a-f]{1,6}|#0*[0-9]{1,7}|${openNames});?`, "gi"),
  decode: decodeReference
}
/**
 * Compatibility forms such as full-width letters. Only forms of ASCII matter, since credentials and ids contain nothing else: they
 * belong to two scripts and exclude accented letters, between which are the ligatures of i and j.
 */
const compatibilityForms: Encoding = {
  pattern:
    /(?![\0-\x7F\xC0-\u0131\u0134-\u017E])(?=[\p{Script=Common}\p{Script=Latin}])\p{Changes_When_NFKC_Casefolded}/gu,
  decode: (match) => {
    const form = match.normalize("NFKC")
    return /^[ -~]+$/.test(form) ? form : match
  }
}
const encodings = [percentCodes, characterReferences, compatibilityForms]

interface Range {
  readonly start: number
  readonly end: number
}
/** A text after decoding, with the position of each part in the source. */
interface Reading {
  readonly text: string
  readonly locate: (range: Range) => Range
}

/** Replaces every match of the pattern by its decoded form and keeps track of positions. */
const decodeMatches = (given: Reading, pattern: RegExp, read: (match: string) => string): Reading => {
  if (given.text.search(pattern) < 0) return given
  const starts: Array<number> = []
  const ends: Array<number> = []
  const pieces: Array<string> = []
  const known = new Map<string, string>()
  let done = 0
  const keepUntil = (end: number) => {
    pieces.push(given.text.slice(done, end))
    for (; done < end; done += 1) {
      starts.push(done)
      ends.push(done + 1)
    }
  }
  for (const { 0: match, index } of given.text.matchAll(pattern)) {
    keepUntil(index)
    const piece = known.get(match) ?? read(match)
    known.set(match, piece)
    pieces.push(piece)
    done = index + match.length
    for (let at = 0; at < piece.length; at += 1) {
      starts.push(index)
      ends.push(done)
    }
  }
  keepUntil(given.text.length)
  return {
    text: pieces.join(""),
    locate: ({ start, end }) => given.locate({ start: starts[start] ?? 0, end: ends[end - 1] ?? 0 })
  }
}

/** Encodings inside each other that are decoded, such as JSON inside a link inside HTML. */
const layers = 6

/** The given reading, then with one encoding after the other decoded, through so many layers. */
const decodeLayers = (start: Reading, some: ReadonlyArray<Encoding>): ReadonlyArray<Reading> => {
  let last = start
  const readings = [last]
  const decodeAll = (some: ReadonlyArray<Encoding>): boolean => {
    const before = readings.length
    for (const { decode, pattern } of some) {
      const next = decodeMatches(last, pattern, (match) => normaliseText(decode(match)))
      if (next.text === last.text) continue
      last = next
      readings.push(last)
    }
    return readings.length > before
  }
  for (let layer = 0; layer < layers; layer += 1)
    if (!decodeAll(some) && !decodeAll([openReferences])) return readings
  // Another part of the text may be encoded in more layers: it must not prevent the decoding of an open reference.
  for (let layer = 0; layer < layers; layer += 1) if (!decodeAll([openReferences, ...some])) break
  return readings
}

/** The text as written and visible, and as readers decode it, up to the number of layers. */
const decodedReadings = (text: string): ReadonlyArray<Reading> => {
  const written: Reading = { text, locate: (range) => range }
  if (isPlainText(text)) return [written]
  const readings = decodeLayers(decodeMatches(written, invisible, visibleForm), [backslashes, ...encodings])
  const ambiguous = readings.find((reading) => separable.test(reading.text))
  return ambiguous === undefined
    ? readings
    : [...readings, ...decodeLayers(ambiguous, [separateBackslashes, ...encodings])]
}

/** Whether a reader can read the whole text as a match of the pattern. */
export const readsAs = (text: string, pattern: RegExp): boolean =>
  decodedReadings(text).some((reading) => pattern.test(reading.text))

const findRanges = ({ locate, text }: Reading, patterns: ReadonlyArray<RegExp>): ReadonlyArray<Range> =>
  patterns.flatMap((pattern) =>
    [...text.matchAll(pattern)].map(({ 0: match, 1: kept = "", index }) =>
      locate({ start: index + kept.length, end: index + match.length })
    )
  )

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
const replaceOnce = (text: string, patterns: ReadonlyArray<RegExp>, replacement: string): string => {
  const ranges = decodedReadings(text).flatMap((reading) => findRanges(reading, patterns))
  ranges.sort((one, other) => one.start - other.start)
  return replaceRanges(text, ranges, replacement)
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
 * Replaces every match of a pattern, except for the pattern's first group. All other text stays unchanged, with its invisible
 * characters. Matches are searched in the text as a reader sees it: without those characters, and also decoded. Repeated, since a
 * replacement may create a new match; every round leaves less of the source.
 */
export const replaceVisible = (text: string, patterns: ReadonlyArray<RegExp>, replacement: string): string =>
  repeatUntilStable(text, (given) => replaceOnce(given, patterns, replacement))
