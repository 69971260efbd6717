/** Credentials and public ids, and the ways to write them so that only a reader recognises them. */
import * as FastCheck from "effect/FastCheck"
import { references } from "./PublishedText.ts"

export interface Secret {
  /** As it is written, with the words by which it is recognised. */
  readonly text: string
  /** What must not be visible. */
  readonly core: string
}

const from = (alphabet: string, length: number) =>
  FastCheck.array(FastCheck.constantFrom(...alphabet), { minLength: length, maxLength: length }).map((all) =>
    all.join("")
  )
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const digits = "0123456789"

/** A random text with a digit near its beginning, so that it never is words joined by separators. */
const opaque = (alphabet: string, length: number) =>
  FastCheck.tuple(from(digits, 1), from(alphabet, length - 1)).map((parts) => parts.join(""))

const prefixed = (
  prefixes: ReadonlyArray<string>,
  body: FastCheck.Arbitrary<string>
): FastCheck.Arbitrary<Secret> =>
  FastCheck.tuple(FastCheck.constantFrom(...prefixes), body).map(([prefix, core]) => ({
    text: `${prefix}${core}`,
    core
  }))

const families = ["oat_", "ort_", "oac_", "obo_", "ask_", "cat_", "sat_", "rft_", "sup_"]
const trackerTokens = ["ghp_", "gho_", "ghu_", "ghs_", "ghr_"]
const headers = [
  "Authorization: Bearer ",
  "authorization: Basic ",
  "AUTHORIZATION=Token ",
  'Authorization": "Digest ',
  "Proxy-Authorization: ApiKey ",
  "Authorization: ",
  "Bearer "
]

/** Every form of credential that docs/api.md lists. */
export const secret: FastCheck.Arbitrary<Secret> = FastCheck.oneof(
  prefixed(families, opaque(`${letters}${digits}_-`, 43)),
  prefixed(["stk-", "table-music-", "table-musicclidaemon-"], opaque("0123456789abcdef", 32)),
  prefixed(["github_pat_"], opaque(`${letters}${digits}_`, 60)),
  prefixed(trackerTokens, opaque(`${letters}${digits}`, 36)),
  prefixed(headers, opaque(`${letters}${digits}`, 24)),
  prefixed(
    headers,
    FastCheck.array(opaque(`${letters}${digits}`, 13), { minLength: 2, maxLength: 3 }).map((all) =>
      all.join("/")
    )
  )
)

export const publicId: FastCheck.Arbitrary<string> = FastCheck.constantFrom(
  "si:deejay",
  "c:jane",
  "c:a-b_c",
  "si:reporter",
  "si:dijk-9",
  "c:fifi",
  "c:abc"
)

const hexOf = (text: string): string => (text.codePointAt(0) ?? 0).toString(16)
/** UTF-16 units in four hexadecimal digits each. */
const unitsOf = (text: string, before: string): string =>
  Array.from(
    { length: text.length },
    (_, at) => `${before}${text.charCodeAt(at).toString(16).padStart(4, "0")}`
  ).join("")
const shifted = (first: number) => (letter: string) =>
  String.fromCodePoint(first + ((letter.codePointAt(0) ?? 0) - 0x21))
const isLetter = (letter: string) => /^[A-Za-z]$/.test(letter)
const utf8 = (text: string): string =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("")

/** The names of references for a character. */
const namesOf = new Map<string, ReadonlyArray<string>>()
for (const [name, shown] of references) namesOf.set(shown, [...(namesOf.get(shown) ?? []), name])

/** All code points beyond ASCII that become this ASCII text in a compatibility normalisation. */
const formsOf = new Map<string, Array<string>>()
/** All code points that no reader sees. */
export const unseenPoints: Array<string> = []
for (let code = 0; code <= 0x10ffff; code += 1) {
  if (code >= 0xd800 && code <= 0xdfff) continue
  const character = String.fromCodePoint(code)
  if (/[\p{Default_Ignorable_Code_Point}\p{Cf}]|(?![\t\n\r\v\f\u0085])\p{Cc}/u.test(character))
    unseenPoints.push(character)
  if (code < 0x80) continue
  const form = character.normalize("NFKC")
  if (form !== character && /^[ -~]+$/.test(form))
    formsOf.set(form, [...(formsOf.get(form) ?? []), character])
}
export const compatibleForms: ReadonlyMap<string, ReadonlyArray<string>> = formsOf

/** Writes one character, or hides something behind it; `at` selects among several ways. */
type Encoder = (letter: string, at: number) => string

const pick = <A>(items: ReadonlyArray<A> | undefined, at: number): A | undefined =>
  items === undefined ? undefined : items[at % items.length]

export const encoders: Readonly<Record<string, Encoder>> = {
  plain: (letter) => letter,
  invisible: (letter, at) => letter + (pick(unseenPoints, at) ?? ""),
  decimal: (letter) => `&#${letter.codePointAt(0)};`,
  "padded decimal": (letter) => `&#00000${letter.codePointAt(0)};`,
  hexadecimal: (letter) => `&#X${hexOf(letter).toUpperCase()};`,
  named: (letter, at) => {
    const name = pick(namesOf.get(letter), at)
    return name === undefined ? letter : `&${name};`
  },
  "invisible name": (letter, at) => `${letter}&${pick(namesOf.get(""), at)};`,
  percent: utf8,
  "percent twice": (letter) => utf8(letter).replace("%", "%25"),
  "percent thrice": (letter) => utf8(letter).replace("%", "%2525").toUpperCase(),
  "percent of UTF-16": (letter) => unitsOf(letter, "%u"),
  "invisible percent": (letter, at) => letter + utf8(pick(unseenPoints, at) ?? ""),
  "invisible json": (letter, at) => letter + unitsOf(pick(unseenPoints, at) ?? "", "\\u"),
  json: (letter) => unitsOf(letter, "\\u"),
  "json in json": (letter) => unitsOf(letter, "\\\\u"),
  braces: (letter) => `\\u{${hexOf(letter)}}`,
  byte: (letter) => (letter <= "\u00ff" ? `\\x${hexOf(letter).padStart(2, "0")}` : unitsOf(letter, "\\u")),
  backslash: (letter) => (/[!-/:-@[-`{-~]/.test(letter) ? `\\${letter}` : letter),
  "full width": (letter) => (letter >= "!" && letter <= "~" ? shifted(0xff01)(letter) : letter),
  "compatible form": (letter, at) => pick(formsOf.get(letter), at) ?? letter,
  mathematical: (letter) =>
    isLetter(letter)
      ? String.fromCodePoint(
          letter < "a"
            ? 0x1d5a0 + (letter.codePointAt(0) ?? 0) - 0x41
            : 0x1d5ba + (letter.codePointAt(0) ?? 0) - 0x61
        )
      : letter
}
const kinds = Object.keys(encoders)

interface Choice {
  readonly kind: string
  readonly at: number
  /** A further encoding of one character of the first one's result. */
  readonly over: string
  readonly where: number
}

const choice: FastCheck.Arbitrary<Choice> = FastCheck.record({
  kind: FastCheck.constantFrom("plain", "plain", "plain", ...kinds),
  at: FastCheck.nat(5_000),
  over: FastCheck.constantFrom("plain", "plain", "plain", "plain", ...kinds),
  where: FastCheck.nat(20)
})

const write = (letter: string, { at, kind, over, where }: Choice): string => {
  const once = encoders[kind]?.(letter, at) ?? letter
  if (over === "plain") return once
  const characters = [...once]
  const chosen = where % characters.length
  return characters
    .map((character, index) =>
      index === chosen ? (encoders[over]?.(character, at) ?? character) : character
    )
    .join("")
}

/** The text in disguise: every character may be written in another way, and a part of that way again in another. */
export const disguised = (text: string): FastCheck.Arbitrary<string> =>
  FastCheck.array(choice, { minLength: text.length, maxLength: text.length }).map((choices) =>
    [...text]
      .map((letter, index) =>
        write(letter, choices[index] ?? { at: 0, kind: "plain", over: "plain", where: 0 })
      )
      .join("")
  )
