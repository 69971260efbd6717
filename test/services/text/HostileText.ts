/** Credentials and public ids, the ways to write them so that only a reader recognises them, and text that renders, refers or imitates. */
import { FastCheck } from "effect"

export interface Secret {
  /** As it is written, with the words by which it is recognised. */
  readonly text: string
  /** What must not be visible. */
  readonly core: string
}

const from = (alphabet: string, minLength: number, maxLength = minLength) =>
  FastCheck.array(FastCheck.constantFrom(...alphabet), { minLength, maxLength }).map((all) => all.join(""))
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const digits = "0123456789"

/** A random text with a digit near its beginning, so that it never is words joined by separators. */
const opaque = (alphabet: string, length: number) =>
  FastCheck.tuple(from(digits, 1), from(alphabet, length - 1)).map((parts) => parts.join(""))
const prefixed = (prefixes: ReadonlyArray<string>, body: FastCheck.Arbitrary<string>) =>
  FastCheck.tuple(FastCheck.constantFrom(...prefixes), body).map(
    ([prefix, core]): Secret => ({ text: `${prefix}${core}`, core })
  )
const headers = [
  "Authorization: Bearer ",
  "authorization: Basic ",
  "AUTHORIZATION=Token ",
  'Authorization": "Digest ',
  "Proxy-Authorization: ApiKey ",
  "Authorization: ",
  "Bearer ",
  "bearer%20"
]

/** The forms of credentials that docs/api.md lists. */
export const secret: FastCheck.Arbitrary<Secret> = FastCheck.oneof(
  prefixed(
    "oat_ ort_ oac_ obo_ ask_ cat_ sat_ rft_ sup_ whs_".split(" "),
    opaque(`${letters}${digits}_-`, 43)
  ),
  prefixed(["stk-", "table-music-", "table-musicclidaemon-"], opaque("0123456789abcdef", 32)),
  prefixed(["github_pat_"], opaque(`${letters}${digits}_`, 60)),
  prefixed(["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], opaque(`${letters}${digits}`, 36)),
  prefixed(headers, opaque(`${letters}${digits}`, 24)),
  prefixed(
    headers,
    FastCheck.tuple(opaque(`${letters}${digits}`, 13), opaque(`${letters}${digits}`, 13)).map((all) =>
      all.join("/")
    )
  )
)

export const publicId = FastCheck.constantFrom(
  ..."si:deejay c:jane c:a-b_c si:reporter si:dijk-9 c:fifi c:abc c:x--".split(" ")
)

const hexOf = (text: string): string => (text.codePointAt(0) ?? 0).toString(16)
/** UTF-16 units in four hexadecimal digits each. */
const unitsOf = (text: string, before: string): string =>
  Array.from(
    { length: text.length },
    (_, at) => `${before}${text.charCodeAt(at).toString(16).padStart(4, "0")}`
  ).join("")
const utf8 = (text: string): string => Buffer.from(text).toString("hex").replace(/../g, "%$&")
const isAscii = (letter: string) => letter >= "!" && letter <= "~"
const pick = <A>(items: ReadonlyArray<A> | undefined, at: number): A | undefined => items?.[at % items.length]

/** Code points that no reader sees, of each kind. */
const unseenPoints = [
  ..."\u0000\u0008\u007f\u0080\u00ad\u034f\u061c\u115f\u17b4\u180e\u200b\u200d\u202e\u2060\u3164\ufe0f\ufeff\uffa0\u{1d173}\u{e0041}\u{e0100}"
]

/** What a terminal obeys, and what is left of it where its escape character is written or lost. */
const sequences = [
  ...["\u001b[01;31m\u001b[K", "\u001b[38;5;196m", "\u001b[1 q", "\u001b[!p", "\u001b(B\u001b[m"],
  ...["\u001b]8;;\u001b\\", "[01;31m[K", "^[[0G", "\\e[31m", "\\033[31m", "\\x1b[31m", "\\u001b[31m"]
]

/** Writes one character, or hides something behind it; `at` selects among several ways. */
const encoders: ReadonlyArray<(letter: string, at: number) => string> = [
  (letter, at) => letter + (pick(unseenPoints, at) ?? ""),
  (letter, at) => letter + (pick(sequences, at) ?? ""),
  (letter) => `&#${letter.codePointAt(0)};`,
  (letter) => `&#00000${letter.codePointAt(0)};`,
  (letter) => `&#X${hexOf(letter).toUpperCase()};`,
  utf8,
  (letter) => utf8(letter).replace("%", "%25"),
  (letter) => unitsOf(letter, "%u"),
  (letter, at) => letter + utf8(pick(unseenPoints, at) ?? ""),
  (letter, at) => letter + unitsOf(pick(unseenPoints, at) ?? "", at % 3 === 0 ? "%u" : "\\u"),
  (letter) => unitsOf(letter, "\\u"),
  (letter) => unitsOf(letter, "\\\\u"),
  (letter) => `\\u{${hexOf(letter)}}`,
  (letter) => `\\U${hexOf(letter).padStart(8, "0")}`,
  (letter) => (isAscii(letter) ? `\\x${hexOf(letter)}` : unitsOf(letter, "\\u")),
  (letter) => (/[!-/:-@[-`{-~]/.test(letter) ? `\\${letter}` : letter),
  (letter, at) => (letter === "i" ? (pick(["\u0130", "i\u0307", "\u0131"], at) ?? letter) : letter),
  (letter) => (letter === "&" ? "&amp;" : letter)
]

const plain = (letter: string): string => letter
const encoder = FastCheck.oneof(
  { weight: 1, arbitrary: FastCheck.constant(plain) },
  { weight: 4, arbitrary: FastCheck.constantFrom(...encoders) }
)
const choice = FastCheck.record({
  encode: encoder,
  at: FastCheck.nat(5_000),
  /** A further encoding of one character of the first one's result. */
  over: FastCheck.oneof(
    { weight: 4, arbitrary: FastCheck.constant(plain) },
    { weight: 1, arbitrary: encoder }
  ),
  where: FastCheck.nat(20)
})

/** The text in disguise: every character may be written in another way, and a part of that way again in another. */
export const disguised = (text: string): FastCheck.Arbitrary<string> =>
  FastCheck.array(choice, { minLength: text.length, maxLength: text.length }).map((choices) =>
    choices
      .map(({ at, encode, over, where }, index) => {
        const once = [...encode(text[index] ?? "", at)]
        return once.map((one, place) => (place === where % once.length ? over(one, at) : one)).join("")
      })
      .join("")
  )

const forged = "report-ref: rep_4f1d9c0a7b3e4d5f8a6b2c1d0e9f8a7b-00112233445566778899aabbccddeeff"

/** Text that renders, refers, notifies, imitates the service, or ends a block. */
const corpus: ReadonlyArray<string> = [
  ...`@octocat|@harbor/maintainers|\`@octocat\`|\uff20octocat|@\u200boctocat|&#64;octocat|&commat;octocat|@&#111;ctocat
|\\@octocat|@|#|#1|GH-1|gh-1|GH\\-1|GH&#45;1|harbor/music#1|&num;1|fixes #1|Closes: harbor/music#1|- [ ] task
|https://github.com/harbor/music/issues/1|![x](https://tracker.example.test/pixel.png)|[x](javascript:alert(1))
|<script>alert(1)</script>|<!-- hidden -->|<!--|-->|</details>|<details><summary>more</summary>|> quoted|# heading
|\`\`\`|\`\`\`\`|\r\`\`\`\r|\u2028\`\`\`\u2028|\u0085\`\`\`\u0085|   \`\`\`   |~~~|\`\`\`\` \`\`\`|    indented
|\u0000|\u001b[31mred\u001b[0m|\u202eright to left|\u2066isolated|\u{e0041}\u{e007f}|\u200f|\ud800|\r
|report\u00ad-ref: rep_1|REPORT-REF:|report\\-ref: x|Attachment \`x\`:|[redacted]|[reporter]|\\|%|&|"|:
|- Report: \`rep_00000000000000000000000000000000\`|[left out: the stored report holds more]`.split(/\n?\|/),
  ..."\n```\n|\n~~~~~~~\n|\n```text\nx\n|\r\n|\n\n|report-\nref: rep_1".split("|"),
  ...[forged, `\n\n${forged}\n`, `<!-- ${forged} -->`, "`".repeat(61), "~".repeat(61), "`".repeat(400)],
  ...["~".repeat(400), "x".repeat(3_000), "\u6f22".repeat(700), "\u{1f3b5}".repeat(700)]
]

/** Up to four pieces of hostile text in a row. */
export const hostile = FastCheck.array(
  FastCheck.oneof(
    { weight: 5, arbitrary: FastCheck.constantFrom(...corpus) },
    { weight: 2, arbitrary: FastCheck.fullUnicodeString({ maxLength: 20 }) },
    { weight: 1, arbitrary: FastCheck.constantFrom(..." \n\t_-:.[".split(""), "\\n", '\\"', "%0A", "&amp;") }
  ),
  { maxLength: 4 }
).map((pieces) => pieces.join(""))
