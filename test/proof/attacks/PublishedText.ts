/**
 * Reads what the service publishes as readers do, independently of it: decodes what a program or a person would decode, again and
 * again, and reads an issue's Markdown by the rules of CommonMark.
 */

/** Names of HTML references for ASCII, for compatibility forms of ASCII, and for what is not visible (from the HTML standard). */
const ascii = {
  Tab: "\t",
  NewLine: "\n",
  excl: "!",
  quot: '"',
  QUOT: '"',
  num: "#",
  dollar: "$",
  percnt: "%",
  amp: "&",
  AMP: "&",
  apos: "'",
  lpar: "(",
  rpar: ")",
  ast: "*",
  midast: "*",
  plus: "+",
  comma: ",",
  period: ".",
  sol: "/",
  colon: ":",
  semi: ";",
  lt: "<",
  LT: "<",
  equals: "=",
  gt: ">",
  GT: ">",
  quest: "?",
  commat: "@",
  lsqb: "[",
  lbrack: "[",
  bsol: "\\",
  rsqb: "]",
  rbrack: "]",
  Hat: "^",
  lowbar: "_",
  UnderBar: "_",
  grave: "`",
  DiacriticalGrave: "`",
  fjlig: "fj",
  lcub: "{",
  lbrace: "{",
  verbar: "|",
  vert: "|",
  VerticalLine: "|",
  rcub: "}",
  rbrace: "}"
} as const
const compatible = {
  bernou: "B",
  Bernoullis: "B",
  CapitalDifferentialD: "D",
  Cayleys: "C",
  circledS: "S",
  complexes: "C",
  DD: "D",
  dd: "d",
  DifferentialD: "d",
  ee: "e",
  ell: "l",
  expectation: "E",
  ExponentialE: "e",
  exponentiale: "e",
  ffilig: "ffi",
  fflig: "ff",
  ffllig: "ffl",
  filig: "fi",
  fllig: "fl",
  Fouriertrf: "F",
  hamilt: "H",
  HilbertSpace: "H",
  ii: "i",
  IJlig: "IJ",
  ijlig: "ij",
  Im: "I",
  image: "I",
  ImaginaryI: "i",
  imagline: "I",
  imagpart: "I",
  integers: "Z",
  lagran: "L",
  Laplacetrf: "L",
  Mellintrf: "M",
  naturals: "N",
  order: "o",
  orderof: "o",
  ordf: "a",
  ordm: "o",
  oS: "S",
  phmmat: "M",
  planckh: "h",
  Poincareplane: "H",
  primes: "P",
  quaternions: "H",
  rationals: "Q",
  Re: "R",
  real: "R",
  realine: "R",
  realpart: "R",
  reals: "R",
  sup1: "1",
  sup2: "2",
  sup3: "3",
  zeetrf: "Z",
  hellip: "...",
  mldr: "...",
  nldr: ".."
} as const
const spaces = [
  "nbsp",
  "NonBreakingSpace",
  "ensp",
  "emsp",
  "emsp13",
  "emsp14",
  "numsp",
  "puncsp",
  "thinsp",
  "ThinSpace",
  "hairsp",
  "VeryThinSpace",
  "MediumSpace"
] as const
const unseenNames = [
  "shy",
  "zwj",
  "zwnj",
  "lrm",
  "rlm",
  "NoBreak",
  "ZeroWidthSpace",
  "af",
  "ApplyFunction",
  "ic",
  "InvisibleComma",
  "it",
  "InvisibleTimes",
  "NegativeVeryThinSpace",
  "NegativeThinSpace",
  "NegativeMediumSpace",
  "NegativeThickSpace"
] as const
const alphabet = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"]

/** What a named reference shows, in ASCII. */
export const references: ReadonlyMap<string, string> = new Map([
  ...Object.entries(ascii),
  ...Object.entries(compatible),
  ...spaces.map((name) => [name, " "] as const),
  ...unseenNames.map((name) => [name, ""] as const),
  ...alphabet.flatMap((letter) =>
    ["fr", "scr", "opf"].map((script) => [`${letter}${script}`, letter] as const)
  )
])

const unseen = /[\p{Default_Ignorable_Code_Point}\p{Cf}]|(?![\t\n])\p{Cc}|\p{Surrogate}/gu
const point = (digits: string, base: number): string => {
  const code = Number.parseInt(digits, base)
  return code <= 0x10ffff ? String.fromCodePoint(code) : "\ufffd"
}

const steps: ReadonlyArray<(text: string) => string> = [
  (text) => text.replace(/\r\n?|[\v\f\u0085\u2028\u2029]/g, "\n").replace(unseen, ""),
  (text) =>
    text
      .replace(/\\+u([0-9a-f]{4})/gi, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)))
      .replace(/\\+u\{0*([0-9a-f]{1,6})\}/gi, (_, digits: string) => point(digits, 16))
      .replace(/\\+x([0-9a-f]{2})/gi, (_, digits: string) => point(digits, 16))
      .replace(/\\+([bfnrtv])/g, "\n")
      .replace(/\\+([!-/:-@[-`{-~])/g, "$1"),
  (text) =>
    text
      .replace(/(?:%(?:25)*[0-9a-f]{2})+/gi, (run) =>
        Buffer.from(run.replace(/%(?:25)*(?=[0-9a-f]{2})/gi, ""), "hex").toString("utf8")
      )
      .replace(/%(?:25)*u([0-9a-f]{4})/gi, (_, digits: string) =>
        String.fromCharCode(Number.parseInt(digits, 16))
      ),
  (text) =>
    text
      .replace(/&(?:amp;)*#x0*([0-9a-f]{1,6});?/gi, (_, digits: string) => point(digits, 16))
      .replace(/&(?:amp;)*#0*(\d{1,7});?/g, (_, digits: string) => point(digits, 10))
      .replace(
        /&(?:amp;)*([A-Za-z][A-Za-z0-9]{1,30});/g,
        (given, name: string) => references.get(name) ?? given
      ),
  (text) => text.normalize("NFKC")
]

/** The text and everything that it becomes while it is decoded, layer by layer. */
export const readingsOf = (text: string): ReadonlySet<string> => {
  const found = new Set([text])
  let last = text
  for (let round = 0; round < 8; round += 1) {
    const before = last
    for (const step of steps) {
      last = step(last)
      found.add(last)
    }
    if (last === before) break
  }
  return found
}

/** Characters of a credential in a row by which it counts as published. */
const betraying = 12

/** Whether any reading shows a part of the secret. */
export const betrays = (text: string, secret: string): boolean => {
  const parts = Array.from({ length: Math.max(1, secret.length - betraying + 1) }, (_, at) =>
    secret.slice(at, at + betraying)
  )
  return [...readingsOf(text)].some((reading) => parts.some((part) => reading.includes(part)))
}

/**
 * Whether any reading names the actor: with its colon anywhere, with an underscore at the start of a word. Of a reporter who is not
 * verified the service knows no id, and recognises one at the start of a word only.
 */
export const names = (text: string, publicId: string, isVerified = true): boolean => {
  const [kind = "", handle = ""] = publicId.split(":")
  const name = new RegExp(
    `(?:${isVerified ? "" : "(?<![a-z0-9])"}${kind}:|(?<![a-z0-9])${kind}_)${handle}(?![a-z0-9])`,
    "i"
  )
  return [...readingsOf(text)].some((reading) => name.test(reading))
}

export interface ReadIssue {
  /** What is in fenced blocks. */
  readonly blocks: ReadonlyArray<string>
  /** The lines outside of them. */
  readonly outside: ReadonlyArray<string>
  /** Why the body is not what the service composes. */
  readonly problems: ReadonlyArray<string>
}

/** Lines that the service itself writes; every one is plain text or a code span of harmless characters. */
const ownLine =
  /^(?:|- (?:Report|Backend|Source|Created|Request|Pull request): `[A-Za-z0-9._:/+-]+`|Context:|Attachment `[A-Za-z0-9._-]+`:|\[left out: the stored report holds more\]|report-ref: rep_[0-9a-f]{32}-[0-9a-f]{32})$/

/** Reads an issue's body: fences by CommonMark 4.5, everything else must be a line of the service. */
export const readIssue = (body: string): ReadIssue => {
  const blocks: Array<string> = []
  const outside: Array<string> = []
  const problems: Array<string> = []
  let fence: { readonly mark: string; readonly length: number } | undefined
  let block: Array<string> = []
  // CommonMark ends a line with LF, CR or both.
  for (const line of body.split(/\r\n|\n|\r/)) {
    if (fence === undefined) {
      const [, run = "", info = ""] = /^ {0,3}(`{3,}|~{3,})(.*)$/.exec(line) ?? []
      const opens = run !== "" && !(run.startsWith("`") && info.includes("`"))
      if (!opens) outside.push(line)
      else {
        if (info.trim() !== "text") problems.push(`a block of ${JSON.stringify(info)}`)
        fence = { mark: run[0] ?? "", length: run.length }
      }
    } else {
      const [, run = ""] = /^ {0,3}(`{3,}|~{3,})[ \t]*$/.exec(line) ?? []
      if (run.startsWith(fence.mark) && run.length >= fence.length) {
        blocks.push(block.join("\n"))
        block = []
        fence = undefined
      } else block.push(line)
    }
  }
  if (fence !== undefined) problems.push("a block that does not end")
  for (const line of outside)
    if (!ownLine.test(line)) problems.push(`outside of the blocks: ${JSON.stringify(line)}`)
  return { blocks, outside, problems }
}

/** What notifies, refers or is rendered where a mail client quotes text without its block. */
const active: ReadonlyArray<readonly [name: string, pattern: RegExp]> = [
  ["a mention", /@[\p{L}\p{N}_]/u],
  ["a reference", /#[\p{L}\p{N}_]/u],
  ["a reference", /\bGH-\d/i],
  ["a marker", /report-ref/i]
]
const decodeReferences = (text: string): string =>
  text
    .replace(/&#x0*([0-9a-f]{1,6});?/gi, (_, digits: string) => point(digits, 16))
    .replace(/&#0*(\d{1,7});?/g, (_, digits: string) => point(digits, 10))
    .replace(/&([A-Za-z][A-Za-z0-9]{1,30});/g, (given, name: string) => references.get(name) ?? given)

/** What a text would do outside of a block, as it is and where a renderer decodes HTML references once. */
export const actsOutside = (text: string): ReadonlyArray<string> =>
  [text, decodeReferences(text)].flatMap((reading) =>
    active.flatMap(([name, pattern]) => {
      const at = reading.search(pattern)
      return at < 0 ? [] : [`${name}: ${JSON.stringify(reading.slice(at, at + 20))}`]
    })
  )

/** Characters that change how other text is shown. */
export const controls =
  /(?![\t\n])\p{Cc}|[\u202a-\u202e\u2066-\u2069\u2028\u2029\ufeff\u200c-\u200f\u{e0000}-\u{e0fff}]|\p{Surrogate}/u
