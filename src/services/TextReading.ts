/**
 * Text as a reader of an issue sees it: without what is invisible, and with pasted encodings decoded, also inside each other. Each layer
 * is decoded at once, and knows where in the source its characters are written.
 */
import { decodeHTMLStrict } from "entities/decode"

/** A decoded text, and where in the source each of its UTF-16 units is written. */
export interface Reading {
  readonly text: string
  readonly rangeOf: (unit: number) => { readonly start: number; readonly end: number }
}

/** Encodings inside each other that are decoded; those of one kind count as one. */
const mostLayers = 3
const hex = "[0-9A-Fa-f]"
const percent = "%(?:25){0,8}"
const ampersand = "&(?:amp;){0,8}"
const entity = `(?:#(?:[xX]0*(${hex}{1,6})|0*([0-9]{1,7}))|([A-Za-z][A-Za-z0-9]{1,30}))`
const escape = "(?:\\u001b|\\^\\[|\\\\{1,16}e)"
/** Line breaks, and what no reader sees. A dot above is what lower case in other languages leaves of the Turkish I. */
const unseen =
  "\\r\\n?|[\\u2028\\u2029\\u0307]|(?![\\t\\n\\u001b])\\p{Cc}|\\p{Cf}|\\p{Default_Ignorable_Code_Point}"
/** Only forms of ASCII matter, since credentials and ids contain nothing else: they belong to two scripts. */
const compatible =
  "(?=[\\p{Script=Common}\\p{Script=Latin}])\\p{Changes_When_NFKC_Casefolded}|[\\u0130\\u0131]"

const isAscii = /^[ -~]+$/

/** Backslashes are bounded, so that a search takes linear time. Those of JSON inside JSON come together. */
const codesOf = (separate: boolean): RegExp => {
  const before = separate ? "" : "\\\\{0,16}"
  const slashes = separate ? "\\\\" : "\\\\{1,16}"
  const byte = (first: string) => `(?:${before}${percent}|${slashes}x)${first}${hex}`
  const next = byte("[89ABab]")
  const notCode = separate ? `(?!${percent}(?:u${hex}|${hex}{2})|&#[0-9xX]|&[0-9A-Za-z]{1,31};|[\\\\])` : ""
  const codes = [
    // Sequences of a terminal, also without their escape character, and its commands.
    `${escape}\\[[0-?]{0,40}[ -/]{0,40}[@-~]|${escape}\\([0-~]|\\[[0-9;]{0,40}[mK]`,
    `\\u001b\\]([^\\u0007\\u001b\\n]*)(?:\\u0007|\\u001b\\\\)`,
    `\\u001b(?![[(\\]%&\\\\])`,
    // Characters of UTF-8, and single bytes.
    `(${byte("[CDcd]")}${next}|${byte("[Ee]")}(?:${next}){2}|${byte("[Ff]")}(?:${next}){3})|(${byte("[0-7]")})`,
    `(?:${slashes}|${before}${percent})u(${hex}{4})`,
    `${slashes}(?:[ux]\\{0*(${hex}{1,6})\\}|U(${hex}{8}))`,
    `${before}${ampersand}${entity};`,
    `${slashes}033`,
    `${slashes}([bfnrtv])`,
    `${slashes}${notCode}([!-/:-@[-\`{-~])`,
    unseen
  ].join("|")
  // Most characters begin none.
  return new RegExp(`(?=[\\\\%&^[]|[^\\t\\n -~])(?:${codes})`, "gu")
}

const decodeName = (name: string): string | undefined => {
  const reference = `&${name};`
  const shown = decodeHTMLStrict(reference)
  return shown === reference ? undefined : shown
}

const characterOf = (code: number): string => (code <= 0x10ffff ? String.fromCodePoint(code) : "\uFFFD")

const decodeBytes = (text: string): string =>
  Buffer.from(text.replace(/(?:\\{0,16}%(?:25){0,8}|\\{1,16}x)([0-9A-Fa-f]{2})/g, "$1"), "hex").toString()

const meaningOfReference = (hexadecimal?: string, decimal?: string, name?: string): string | undefined =>
  hexadecimal !== undefined
    ? characterOf(Number.parseInt(hexadecimal, 16))
    : decimal !== undefined
      ? characterOf(Number(decimal))
      : name && // Some readers ignore the case of names.
        (decodeName(name) ?? decodeName(name.toLowerCase()))

const controls: Readonly<Record<string, string>> = { b: "", t: "\t" }

const meaningOfUnseen = (given: string): string => (/^[\r\v\f\u0085\u2028\u2029]/.test(given) ? "\n" : "")

/** A search for codes. `meaningOf` is undefined where a match means itself. */
interface Step {
  readonly pattern: RegExp
  readonly meaningOf: (match: RegExpExecArray) => string | undefined
  /** A terminal does not print its commands. They are read after all other text. */
  readonly commandOf?: (match: RegExpExecArray) => string | undefined
}

const stepOf = (separate: boolean): Step => ({
  pattern: codesOf(separate),
  commandOf: (match) => match[1],
  meaningOf: ([whole, , utf8, byte, unit, point, long, hexadecimal, decimal, name, control, literal]) => {
    if (literal !== undefined) return literal
    if (control !== undefined) return controls[control] ?? "\n"
    if (byte !== undefined) return characterOf(Number.parseInt(byte.slice(-2), 16))
    if (utf8 !== undefined) return decodeBytes(utf8)
    if (unit !== undefined) return String.fromCharCode(Number.parseInt(unit, 16))
    const code = point ?? long
    if (code !== undefined) return characterOf(Number.parseInt(code, 16))
    if (whole.endsWith("033")) return "\u001b"
    return whole.endsWith(";") ? meaningOfReference(hexadecimal, decimal, name) : meaningOfUnseen(whole)
  }
})
/** What is unseen may stand inside a code. The end of a terminal's command goes with the command. */
const unseenPattern = () => new RegExp(`(?!\\u0007)(?:${unseen})`, "gu")
const unseenOnes: Step = { pattern: unseenPattern(), meaningOf: ([whole]) => meaningOfUnseen(whole) }
const unseenMeaning = unseenPattern()
const together = stepOf(false)
const separate = stepOf(true)

/** A byte of no character in UTF-8 is one of Latin-1 in an escape of JavaScript. */
const loneBytes: Step = {
  pattern: new RegExp(`(?:\\\\{1,16}x|\\\\{0,16}${percent})([89A-Fa-f]${hex})`, "gu"),
  meaningOf: ([, byte = ""]) => String.fromCharCode(Number.parseInt(byte, 16))
}

const forms: Step = {
  pattern: new RegExp(compatible, "gu"),
  meaningOf: ([form]) => {
    const shown = /[\u0130\u0131]/.test(form) ? "i" : form.normalize("NFKC")
    return isAscii.test(shown) ? shown : undefined
  }
}

/** References that are also read without a semicolon. Shorter names begin the names of URL parameters. */
const openReferences: Step = {
  pattern:
    /&(?:#(?:[xX]0*([0-9A-Fa-f]{1,6})|0*([0-9]{1,7}))|(colon|lowbar|underbar|quot|nbsp|shy|zwn?j|lrm|rlm|nobreak|invisible(?:times|comma)|applyfunction|zerowidthspace|negative(?:verythin|thin|medium|thick)space))/giu,
  meaningOf: ([, hexadecimal, decimal, name]) => meaningOfReference(hexadecimal, decimal, name)
}

/** The parts of a decoded text: units of the text before, or what they mean. Columns, because there may be one for each unit. */
const makeParts = (text: string) => {
  const [froms, tos, ends]: [Array<number>, Array<number>, Array<number>] = [[], [], []]
  const meanings: Array<string | undefined> = []
  let decoded = ""
  return {
    froms,
    tos,
    meanings,
    /** Where each part ends in the decoded text. */
    ends,
    decoded: () => decoded,
    add: (from: number, to: number, meaning?: string): void => {
      if (meaning === undefined && from === to) return
      // What is removed together is one part.
      const last = tos.length - 1
      if (meaning === "" && meanings[last] === "" && tos[last] === from) {
        tos[last] = to
        return
      }
      decoded += meaning ?? text.slice(from, to)
      froms.push(from)
      tos.push(to)
      meanings.push(meaning)
      ends.push(decoded.length)
    }
  }
}

/** The reading with its codes replaced; undefined when it has none. */
const decode = (before: Reading, { commandOf, meaningOf, pattern }: Step): Reading | undefined => {
  const { text } = before
  const { add, decoded, ends, froms, meanings, tos } = makeParts(text)
  const commands: Array<readonly [from: number, to: number]> = []
  let done = 0
  pattern.lastIndex = 0
  for (let match = pattern.exec(text); match !== null; match = pattern.exec(text)) {
    const meaning = meaningOf(match)
    if (meaning === undefined) continue
    const { index: from } = match
    add(done, from)
    done = from + match[0].length
    add(from, done, isAscii.test(meaning) ? meaning : meaning.replace(unseenMeaning, meaningOfUnseen))
    const command = commandOf?.(match)
    if (command !== undefined) commands.push([from + 2, from + 2 + command.length])
  }
  if (done === 0) return undefined
  add(done, text.length)
  for (const [from, to] of commands) {
    add(from - 2, from, "\uFFFD")
    add(from, to)
  }
  return {
    text: decoded(),
    rangeOf: (unit) => {
      // The first part that ends behind the unit.
      let [low, high] = [0, ends.length - 1]
      while (low < high) {
        const middle = (low + high) >> 1
        if ((ends[middle] ?? 0) > unit) high = middle
        else low = middle + 1
      }
      const [from = 0, to = 1] = [froms[low], tos[low]]
      if (meanings[low] === undefined) return before.rangeOf(from + unit - (ends[low - 1] ?? 0))
      return { start: before.rangeOf(from).start, end: before.rangeOf(to - 1).end }
    }
  }
}

/** Every layer that a reader decodes. Where forms are left, "²" behind an id ends a word; where they are not, it is a 2. */
const layersOf = (source: Reading, codes: Step): ReadonlyArray<Reading> => {
  const layers: Array<Reading> = []
  const add = (step: Step): boolean => {
    const next = decode(layers.at(-1) ?? source, step)
    if (next !== undefined) layers.push(next)
    return next !== undefined
  }
  const addCodes = (): void => {
    for (let layer = 0; layer < mostLayers && add(codes); layer += 1);
  }
  add(unseenOnes)
  addCodes()
  // The semicolon of a reference may be encoded, so those without are decoded when all else is.
  for (const step of [loneBytes, forms, openReferences, forms]) if (add(step)) addCodes()
  return layers
}

/** Text of which a reader may see something else than what is written. */
const encoded = /[^\t\n -~]|[\\%&]|\^\[\[|\[[\d;]*[mK]/
const separateCode = /\\(?:[%&]|\\{1,16}[uUx])/

/** The text as its readers decode it; none when that is the text itself. */
export const readText = (text: string): ReadonlyArray<Reading> => {
  if (!encoded.test(text)) return []
  const source: Reading = { text, rangeOf: (unit) => ({ start: unit, end: unit + 1 }) }
  const layers = layersOf(source, together)
  return separateCode.test(text) ? [...layers, ...layersOf(source, separate)] : layers
}
