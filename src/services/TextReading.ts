/**
 * Text as a reader of an issue sees it: without what is invisible, and with pasted encodings decoded, also inside each other. Every
 * character goes onto a stack. Where it ends a code, the character that the code means takes the place of the code and may end
 * another one. So the time is linear in the text, whatever it consists of.
 */
import { decodeHTMLStrict } from "entities/decode"

/** A decoded text, and where in the source each of its UTF-16 units is written. */
export interface Reading {
  readonly text: string
  readonly starts: ReadonlyArray<number>
  readonly ends: ReadonlyArray<number>
}

const codeOf = (character: string): number => character.charCodeAt(0)
const [backslash, percent, ampersand, bracket] = [0x5c, 0x25, 0x26, 0x5b]
const escape = 0x1b
const unknown = 0xfffd
/** A byte of a character in UTF-8 that is not complete yet is this and the byte, beyond all code points. */
const firstByte = 0x110000

/** What a backslash before the letter means. */
const escapes = new Map([..."bfnrtv"].map((letter, at) => [codeOf(letter), codeOf("\b\n\n\n\t\n"[at] ?? "")]))
/** A backslash before one of these may belong to a code that is not complete yet. */
const beginsCode = new Set([..."\\%&uUx"].map(codeOf))
/** Whether a backslash before the written character is a character of its own. */
const isPlainAfterBackslash = (code: number): boolean =>
  beginsCode.has(code) || code === 0x20 || (isAlphanumeric(code) && !escapes.has(code))
/** The letters that a backslash and so many hexadecimal digits make a code. */
const codeLetters = new Map([..."xuU"].map((letter, at) => [codeOf(letter), 2 ** (at + 1)]))
const codeForms = Array.from(codeLetters, ([letter, count]) => ({ letter, count }))
/** Added to such a letter when its backslash is gone, as it belonged to the code of the letter as well. */
const escaped = 0x200000

/** The value of a hexadecimal digit, else 16. */
const digitOf = (code: number): number => {
  const letter = code | 0x20
  return code >= 0x30 && code <= 0x39 ? code - 0x30 : letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : 16
}
const isVisibleAscii = (code: number): boolean => code >= 0x20 && code < 0x7f
const isAlphanumeric = (code: number): boolean =>
  (code >= 0x30 && code <= 0x39) || ((code | 0x20) >= 0x61 && (code | 0x20) <= 0x7a)
/** Digits, `;`, `?` and the like: the parameters of a terminal sequence. */
const isParameter = (code: number): boolean => code >= 0x30 && code <= 0x3f
/** A space, `!`, `$` and the like: behind the parameters, before the end. `(` begins a sequence of its own. */
const isIntermediate = (code: number): boolean => code >= 0x20 && code <= 0x2f && code !== 0x28

/** Every code takes at least three characters, and a character at most two. */
const isCode = (start: number, end: number): boolean => end - start > 2

const lineBreak = /[\n-\r\u0085\u2028\u2029]/
/** A dot above is what lower case in other languages leaves of the Turkish I. */
const unseen = /\u0307|[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]/u
const turkishI = /[\u0130\u0131]/
/** Only forms of ASCII matter, since credentials and ids contain nothing else: they belong to two scripts. */
const compatible = /(?=[\p{Script=Common}\p{Script=Latin}])\p{Changes_When_NFKC_Casefolded}/u
const ascii = /^[ -~]+$/

const findShownForm = (code: number): string => {
  const character = code < firstByte ? String.fromCodePoint(code) : "\uFFFD"
  if (character === "\t") return character
  if (lineBreak.test(character)) return "\n"
  if (unseen.test(character)) return ""
  if (turkishI.test(character)) return "i"
  const form = compatible.test(character) ? character.normalize("NFKC") : ""
  return ascii.test(form) ? form : code > 0xffff ? "\uFFFD" : character
}

/** So many forms are kept: texts repeat their characters. */
const keptForms = 4_096
const formOf = new Map<number, string>()
/** What a reader sees of a character other than visible ASCII. */
const shownForm = (code: number): string => {
  const known = formOf.get(code)
  if (known !== undefined) return known
  if (formOf.size >= keptForms) formOf.clear()
  const shown = findShownForm(code)
  formOf.set(code, shown)
  return shown
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
const longestName = 31

/**
 * References that are also read without a semicolon. Shorter names begin the names of URL parameters. They are decoded when all else
 * is: the semicolon may be encoded.
 */
const openReference =
  /&(?:#(x0*[0-9a-f]{1,6}|0*[0-9]{1,7})|(colon|lowbar|UnderBar|quot|nbsp|shy|zwn?j|lrm|rlm|NoBreak|Invisible(?:Times|Comma)|ApplyFunction|ZeroWidthSpace|Negative(?:VeryThin|Thin|Medium|Thick)Space))/gi

/** How one of several readers reads: a code begins with its last backslash; compatibility forms are no letters or digits of ASCII. */
interface Manner {
  readonly separate?: boolean
  readonly keepsForms?: boolean
}
const letterOrDigit = /[A-Za-z0-9]/

/** What a reader has read: characters, and where in the source each starts and ends. */
interface Stacks {
  readonly codes: Array<number>
  readonly starts: Array<number>
  readonly ends: Array<number>
}
/** The stacks of the last text, for the next one: large ones take longer to make than to fill. A body bounds how large they become. */
const kept: Array<Stacks> = []

class Reader {
  /** Whether another reader reads the text in another way. */
  isAmbiguous = false
  /** Whether a character beyond ASCII is read as a letter or digit. */
  hasForms = false
  private readonly manner: Manner
  private readonly codes: Array<number>
  private readonly starts: Array<number>
  private readonly ends: Array<number>
  private size = 0
  /** Where the last command of a terminal (OSC) begins. */
  private command = -1
  /** What codes mean, the last first. Each may end another code, as often as the text is long: more than the stack of calls holds. */
  private readonly decoded: Array<readonly [code: number, start: number, end: number]> = []
  /** Such commands, which a terminal does not print. They are read after all other text. */
  private readonly aside: Array<readonly [code: number, start: number, end: number]> = []

  /** What the stacks hold does not count. */
  constructor(manner: Manner, { codes, ends, starts }: Stacks) {
    this.manner = manner
    this.codes = codes
    this.starts = starts
    this.ends = ends
  }

  /** The character so many places from the top, which is 1. */
  private back(places: number): number {
    return places > this.size ? -1 : (this.codes[this.size - places] ?? 0) & ~escaped
  }

  private push(code: number, start: number, end: number): void {
    this.codes[this.size] = code
    this.starts[this.size] = start
    this.ends[this.size] = end
    this.size += 1
  }

  /** Removes so many places and returns where they start in the source. */
  private pop(places: number): number {
    this.size -= places
    return this.starts[this.size] ?? 0
  }

  /** Removes the backslashes before a code, and returns where it starts with them. */
  private popBackslashes(start: number): number {
    let first = start
    while (this.back(1) === backslash) first = this.pop(1)
    return first
  }

  /** Reads a character, which is written between these positions of the source, and then what it decodes to. */
  read(code: number, written: number, end: number): void {
    this.readOne(code, written, end)
    for (let next = this.decoded.pop(); next !== undefined; next = this.decoded.pop()) this.readOne(...next)
  }

  private readOne(code: number, written: number, end: number): void {
    const start = isCode(written, end) && !isVisibleAscii(code) ? this.popBackslashes(written) : written
    if (isVisibleAscii(code)) this.readVisible(code, start, end)
    else if (code === escape) this.push(code, start, end)
    else if (code === 0x07) this.setCommandAside()
    else if (code >= 0xd800 && code <= 0xdfff) this.readSurrogate(code, start, end)
    else {
      const shown = this.formFor(code)
      if (shown === "\n") this.command = -1
      if (ascii.test(shown)) this.decodeText(shown, start, end)
      else if (shown !== "") this.push(codeOf(shown), start, end)
    }
  }

  /** The compatibility form of a character, or the character where the reader shows it as it is. */
  private formFor(code: number): string {
    const shown = shownForm(code)
    if (!letterOrDigit.test(shown)) return shown
    this.hasForms = true
    return this.manner.keepsForms ? "\uFFFD" : shown
  }

  readText(text: string, start: number, end: number): void {
    for (const character of text) this.read(character.codePointAt(0) ?? unknown, start, end)
  }

  private decode(code: number, start: number, end: number): void {
    this.decoded.push([code, start, end])
  }

  private decodeText(text: string, start: number, end: number): void {
    for (const character of [...text].reverse()) this.decode(character.codePointAt(0) ?? unknown, start, end)
  }

  /** Reads a part of another reading. */
  readAgain({ ends, starts, text }: Reading, from: number, to: number): void {
    for (let at = from; at < to; at += 1) this.read(text.charCodeAt(at), starts[at] ?? 0, ends[at] ?? 0)
  }

  private readSurrogate(code: number, start: number, end: number): void {
    const high = this.back(1)
    if (code < 0xdc00 || high < 0xd800 || high > 0xdbff) this.push(code, start, end)
    else this.decode((high - 0xd800) * 0x400 + (code - 0xdc00) + 0x10000, this.pop(1), end)
  }

  private readVisible(code: number, start: number, end: number): void {
    const before = this.back(1)
    if (before === escape && this.endsEscape(code)) return
    if (before !== backslash) this.push(code, start, end)
    else if (this.endControl(code, start, end)) return
    if (code === 0x3b) this.endReference(end)
    else if (code === 0x7d) this.endBraces(end)
    else if (!(digitOf(code) < 16 && this.endDigits(end)) && code >= 0x40) this.endSequence(code)
  }

  /** Reads a character behind a backslash. Returns true where both are a control. */
  private endControl(code: number, start: number, end: number): boolean {
    const isDecoded = isCode(start, end)
    const isLetter = isDecoded && codeLetters.has(code)
    const isLiteral = isDecoded ? beginsCode.has(code) && !isLetter : isPlainAfterBackslash(code)
    const control = isDecoded || isLiteral ? undefined : escapes.get(code)
    if (control !== undefined) this.decode(control, this.popBackslashes(start), end)
    else if (isLiteral) this.push(code, start, end)
    else if (isLetter) this.push(code + escaped, this.popCode(code, 1), end)
    else this.push(code, this.popBackslashes(start), end)
    return control !== undefined
  }

  /** The escape character is invisible unless a sequence begins. Returns true at the end of a command. */
  private endsEscape(code: number): boolean {
    if (code === 0x5d) this.command = this.size - 1
    else if (code !== bracket && code !== 0x28) this.pop(1)
    const isEnd = code === backslash && this.hasCommand()
    if (isEnd) this.setCommandAside()
    return isEnd
  }

  private hasCommand(): boolean {
    return this.command >= 0 && this.command < this.size && this.codes[this.command] === escape
  }

  private setCommandAside(): void {
    if (!this.hasCommand()) return
    for (let at = this.command; at < this.size; at += 1)
      this.aside.push([this.codes[at] ?? 0, this.starts[at] ?? 0, this.ends[at] ?? 0])
    this.aside.push([unknown, 0, 0])
    this.pop(this.size - this.command)
  }

  /** Removes a sequence such as `ESC[01;31m`. Its escape character may be written as `^[` or `\e`, or be lost before a colour. */
  private endSequence(code: number): void {
    let places = 2
    while (places < 40 && isIntermediate(this.back(places))) places += 1
    const hasIntermediate = places > 2
    while (places < 40 && isParameter(this.back(places))) places += 1
    const [first, before] = [this.back(places), this.back(places + 1)]
    if (before === escape && (first === bracket || first === 0x28)) this.pop(places + 1)
    // Without the escape character itself a space is more likely one between words.
    else if (first === bracket && !hasIntermediate) {
      const mark = this.back(places + 2)
      const isWritten = (before === bracket && mark === 0x5e) || (before === 0x65 && mark === backslash)
      if (isWritten) this.pop(places + 2)
      else if (code === 0x6d || code === 0x4b) this.pop(places)
    }
  }

  /** The number in the places above these, else -1. */
  private numberAbove(places: number): number {
    let value = 0
    for (let at = places; at > 0; at -= 1) {
      const digit = digitOf(this.back(at))
      if (digit > 15) return -1
      value = value * 16 + digit
    }
    return value
  }

  /** The places of a code whose letter is in this place, with its backslash or percent sign; 0 when there is none. */
  private placesOfCode(letter: number): number {
    if ((this.codes[this.size - letter] ?? 0) >= escaped) return letter
    const before = this.back(letter + 1)
    return before === backslash || (before === percent && this.back(letter) === 0x75) ? letter + 1 : 0
  }

  /** `%6f`, `\x6f`, `%u006f`, `\u006f`, `\U0000006f`, and the octal escape character, `\033`. */
  private endDigits(end: number): boolean {
    for (const { count, letter } of codeForms) {
      const isByte = count === 2
      const places =
        isByte && this.back(3) === percent
          ? 3
          : this.back(count + 1) === letter
            ? this.placesOfCode(count + 1)
            : 0
      const code = places > 0 ? this.numberAbove(count) : -1
      if (code < 0) continue
      const start = this.back(places) === percent ? this.pop(places) : this.popCode(code, places)
      if (isByte) this.readByte(code, start, end)
      else this.decode(code, start, end)
      return true
    }
    const isEscape = this.back(4) === backslash && this.numberAbove(3) === 0x033
    if (isEscape) this.decode(escape, this.pop(4), end)
    return isEscape
  }

  /** Removes a backslash and its code. Those before it are of JSON inside JSON, but one may belong to the letter that the code means. */
  private popCode(code: number, places: number): number {
    const start = this.pop(places)
    if (this.back(1) === backslash && codeLetters.has(code)) this.isAmbiguous = true
    return this.manner.separate ? start : this.popBackslashes(start)
  }

  private readByte(byte: number, start: number, end: number): void {
    if (byte < 0x80) {
      this.decode(byte, start, end)
      return
    }
    this.push(firstByte + byte, this.popBackslashes(start), end)
    let length = 1
    let code = 0
    for (; length < 4 && (this.back(length) & ~0x3f) === firstByte + 0x80; length += 1)
      code += (this.back(length) & 0x3f) * 64 ** (length - 1)
    const lead = this.back(length) - firstByte
    if (length !== (lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2) || lead < 0xc0) return
    this.decode(code + (lead & (0x7f >> length)) * 64 ** (length - 1), this.pop(length), end)
  }

  /** The number of the digits that end at the second place, and the first place below them. */
  private numberBelow(base: number): readonly [value: number, places: number] {
    let value = 0
    let places = 2
    for (let unit = 1; ; unit *= base) {
      const digit = digitOf(this.back(places))
      if (digit >= base) return [value, places]
      if (digit > 0) value += digit * unit
      places += 1
    }
  }

  /** `\u{6f}` */
  private endBraces(end: number): void {
    const [code, places] = this.numberBelow(16)
    const letter = this.back(places + 1)
    if (places < 3 || this.back(places) !== 0x7b || (letter !== 0x75 && letter !== 0x78)) return
    const all = this.placesOfCode(places + 1)
    if (all > 0) this.decode(code, this.popCode(code, all), end)
  }

  /** `&#111;`, `&#x6f;`, `&oopf;` */
  private endReference(end: number): void {
    for (const [base, mark] of [
      [10, 0],
      [16, 1]
    ] as const) {
      const [code, places] = this.numberBelow(base)
      const hash = places + mark
      if (places > 2 && (mark === 0 || (this.back(places) | 0x20) === 0x78))
        if (this.back(hash) === 0x23 && this.back(hash + 1) === ampersand) {
          this.decode(code, this.pop(hash + 1), end)
          return
        }
    }
    let places = 2
    while (places <= longestName + 1 && isAlphanumeric(this.back(places))) places += 1
    if (places < 4 || this.back(places) !== ampersand) return
    const name = String.fromCharCode(...this.codes.slice(this.size - places + 1, this.size - 1))
    // Some readers ignore the case of names.
    const shown = decodeName(name) ?? decodeName(name.toLowerCase())
    if (shown !== undefined) this.decodeText(shown, this.pop(places), end)
  }

  finish(): Reading {
    for (const [code, start, end] of this.aside) this.push(code, start, end)
    const size = this.size
    this.size = 0
    for (let at = 0; at < size; at += 1) {
      const code = (this.codes[at] ?? unknown) & ~escaped
      // A backslash stays of another reader's code, from which the next character is decoded.
      const isLeft =
        code === backslash && at + 1 < size && isCode(this.starts[at + 1] ?? 0, this.ends[at + 1] ?? 0)
      // A byte of no character is one of Latin-1 in an escape of JavaScript.
      const shown = code < firstByte ? code : codeOf(shownForm(code - firstByte))
      if (code !== escape && !isLeft && !Number.isNaN(shown))
        this.push(shown, this.starts[at] ?? 0, this.ends[at] ?? 0)
    }
    let text = ""
    for (let at = 0; at < this.size; at += chunk)
      text += String.fromCharCode(...this.codes.slice(at, Math.min(at + chunk, this.size)))
    return { text, starts: this.starts, ends: this.ends }
  }
}
const chunk = 8_192

const readOpenReferences = (given: Reading, reader: Reader): void => {
  let done = 0
  for (const { 0: match, 1: code, 2: name = "", index } of given.text.matchAll(openReference)) {
    reader.readAgain(given, done, index)
    done = index + match.length
    const [start, end] = [given.starts[index] ?? 0, given.ends[done - 1] ?? 0]
    if (code === undefined)
      reader.readText(decodeName(name) ?? decodeName(name.toLowerCase()) ?? match, start, end)
    else reader.read(Number(code.toLowerCase().replace("x", "0x")), start, end)
  }
  reader.readAgain(given, done, given.text.length)
}

/** Text of which a reader may see something else than what is written. */
const encoded = /[^\t\n -~]|[\\%&]|\^\[\[|\[[\d;]*[mK]/

/** The text as its readers decode it; none when that is the text itself. The positions hold until the next text is read. */
export const readText = (text: string): ReadonlyArray<Reading> => {
  if (!encoded.test(text)) return []
  let isAmbiguous = false
  let hasForms = false
  let used = 0
  const nextStacks = (): Stacks => {
    const stacks = kept[used] ?? { codes: [], starts: [], ends: [] }
    kept[used] = stacks
    used += 1
    return stacks
  }
  const readAs = (manner: Manner) => {
    const pass = (feed: (reader: Reader) => void): Reading => {
      const reader = new Reader(manner, nextStacks())
      feed(reader)
      isAmbiguous ||= reader.isAmbiguous
      hasForms ||= reader.hasForms
      return reader.finish()
    }
    const reading = pass((reader) => {
      for (let at = 0; at < text.length; at += 1) reader.read(text.charCodeAt(at), at, at + 1)
    })
    return reading.text.search(openReference) < 0
      ? reading
      : pass((reader) => readOpenReferences(reading, reader))
  }
  const readings = [readAs({})]
  if (isAmbiguous) readings.push(readAs({ separate: true }))
  // Such a form behind an id would make it another one: "²" is a 2 and also ends a word.
  if (hasForms) readings.push(readAs({ keepsForms: true }))
  return readings
}
