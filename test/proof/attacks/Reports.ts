/**
 * Hostile reports against the issue that is published of them: markup, references, forged markers, and credentials and names in
 * disguise. Most are composed in memory; some go the whole way, to the tracker and into the database.
 */
import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import { iamFaults } from "../../../sandbox/upstreams/Iam.ts"
import { repositoryName } from "../../../sandbox/SimulatedUpstreams.ts"
import { composeIssue, fullSize, markerOf, shortSize } from "../../../src/services/IssueDraft.ts"
import { redactReport } from "../../../src/services/Redaction.ts"
import {
  Anonymous,
  type ReportContent,
  type Reporter,
  type StoredReport,
  Unverified,
  Verified
} from "../../../src/services/Store.ts"
import { until } from "../../durability/Client.ts"
import { bearing, type Bench, type IdentityAttack, logIn, newKey, writtenBy } from "./Bench.ts"
import { betrays, decodeReferences, names, problemsOf, shows } from "./PublishedText.ts"

const forged = "report-ref: rep_4f1d9c0a7b3e4d5f8a6b2c1d0e9f8a7b-00112233445566778899aabbccddeeff"

/** Text that renders, refers, notifies, or imitates the service; one a line, and those with ends of lines. */
const corpus: ReadonlyArray<string> = [
  ...`@octocat
@harbor/maintainers
\`@octocat\`
\uff20octocat
@\u200boctocat
&#64;octocat
&commat;octocat
@&#111;ctocat
\\@octocat
#1
GH-1
GH\\-1
harbor/music#1
&num;1
Closes: harbor/music#1
https://github.com/harbor/music/issues/1
0123456789abcdef0123456789abcdef01234567
![x](https://tracker.example.test/pixel.png)
<img src=https://tracker.example.test/pixel.png onerror=alert(1)>
[x](javascript:alert(1))
<script>alert(1)</script>
<!-- hidden
-->
<!-- ${forged} -->
${forged}
report\u00ad-ref: rep_1
REPORT-REF:
<details><summary>more</summary>
- Report: \`rep_00000000000000000000000000000000\`
Attachment \`x\`:
[left out: the stored report holds more]
| a | b |
[^1]: note
$\\href{https://example.test}{x}$
- [ ] task
    indented
> quoted
# heading
\`\`\`
   \`\`\`   
\`\`\`\` \`\`\`
\`\`\`math
~~~
:smile:
\u0000
\u001b[31mred\u001b[0m
\u202eright to left
\u2066isolated
\u{e0041}\u{e007f}
\u200f
\\
%
&
"`.split("\n"),
  `\n\n${forged}`,
  "report-\nref: rep_1",
  "---\ntitle: forged\n---",
  "![x][y]\n\n[y]: https://tracker.example.test/pixel.png",
  ...["\n", "\r", "\u2028", "\u0085"].map((end) => `${end}\`\`\`${end}`),
  "\n~~~~~~~\n",
  "\n```text\nx\n",
  ...["`", "~"].map((mark) => mark.repeat(400)),
  ...["x".repeat(3_000), "\u6f22".repeat(700), "\u{1f3b5}".repeat(700)]
]

const { array, boolean, constant, constantFrom, nat, oneof, record, tuple } = FastCheck
type Arbitrary<A> = FastCheck.Arbitrary<A>

const textOf = (alphabet: string, length: number): Arbitrary<string> =>
  array(constantFrom(...alphabet), { minLength: length, maxLength: length }).map((all) => all.join(""))
const digits = "0123456789"
const alphanumeric = `ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz${digits}`

/** A credential as it is written, with the words by which it is recognised, and the part that must not be visible. */
interface Secret {
  readonly text: string
  readonly core: string
}

/** A digit near its beginning: it never is words joined by separators. */
const secretOf = (prefixes: string, alphabet: string, length: number): Arbitrary<Secret> =>
  tuple(constantFrom(...prefixes.split("|")), textOf(digits, 1), textOf(alphabet, length - 1)).map(
    ([prefix, first, rest]) => ({ text: `${prefix}${first}${rest}`, core: `${first}${rest}` })
  )

const headers =
  'Authorization: Bearer |authorization: Basic |AUTHORIZATION=Token |Authorization": "Digest |Proxy-Authorization: ApiKey |Authorization: |Bearer '

/** Every form of credential that docs/api.md lists. */
const secret = oneof(
  secretOf("oat_|ort_|oac_|obo_|ask_|cat_|sat_|rft_|sup_", `${alphanumeric}_-`, 43),
  secretOf("stk-|table-music-|table-musicclidaemon-", "0123456789abcdef", 32),
  secretOf("github_pat_", `${alphanumeric}_`, 60),
  secretOf("ghp_|gho_|ghu_|ghs_|ghr_", alphanumeric, 36),
  secretOf(headers, alphanumeric, 24)
)
const publicId = constantFrom("si:deejay", "c:jane", "c:a-b_c", "si:reporter", "si:dijk-9", "c:abc")

/** UTF-16 units in four hexadecimal digits each. */
const unitsOf = (text: string, before: string): string =>
  Array.from(
    { length: text.length },
    (_, at) => `${before}${text.charCodeAt(at).toString(16).padStart(4, "0")}`
  ).join("")
const hexOf = (text: string): string => (text.codePointAt(0) ?? 0).toString(16)
const percents = (text: string): string =>
  `%${Buffer.from(text)
    .toString("hex")
    .replace(/..(?=.)/g, "$&%")}`

const referenceNames =
  "Tab excl quot QUOT num dollar percnt apos lpar rpar ast midast plus comma period sol colon semi lt LT equals gt quest commat lsqb lbrack bsol rsqb Hat lowbar UnderBar grave lcub lbrace verbar VerticalLine rcub nbsp ensp thinsp ell ee dd ii oS image real Re".split(
    " "
  )
const letterNames = [...alphanumeric.slice(0, 52)].flatMap((letter) =>
  ["fr", "scr", "opf"].map((script) => `${letter}${script}`)
)
const unseenNames = "shy zwj zwnj lrm rlm NoBreak ZeroWidthSpace af ic it NegativeThinSpace".split(" ")

/** Ways to write each ASCII character: names of references, and other characters that become it in a compatibility normalisation. */
const namesOf = new Map<string, Array<string>>()
const formsOf = new Map<string, Array<string>>()
const add = (map: Map<string, Array<string>>, key: string, value: string) =>
  map.set(key, [...(map.get(key) ?? []), value])
for (const name of [...referenceNames, ...letterNames])
  add(namesOf, decodeReferences(`&${name};`).normalize("NFKC"), name)
/** All code points that no reader sees. */
const unseen: Array<string> = []
for (let code = 0; code <= 0x10ffff; code += 1) {
  if (code >= 0xd800 && code <= 0xdfff) continue
  const character = String.fromCodePoint(code)
  if (/[\p{Default_Ignorable_Code_Point}\p{Cf}]|(?![\t\n\r\v\f\u0085])\p{Cc}/u.test(character))
    unseen.push(character)
  const form = code < 0x80 ? character : character.normalize("NFKC")
  if (form !== character && /^[ -~]$/.test(form)) add(formsOf, form, character)
}
const pick = (items: ReadonlyArray<string> | undefined, at: number, other: string): string =>
  items?.[at % items.length] ?? other

/** Writes one character, or hides something behind it; `at` selects among several ways. */
const encoders: Readonly<Record<string, (letter: string, at: number) => string>> = {
  invisible: (letter, at) => letter + pick(unseen, at, ""),
  decimal: (letter) => `&#${letter.codePointAt(0)};`,
  "padded decimal": (letter) => `&#00000${letter.codePointAt(0)};`,
  hexadecimal: (letter) => `&#X${hexOf(letter).toUpperCase()};`,
  named: (letter, at) => (namesOf.has(letter) ? `&${pick(namesOf.get(letter), at, "")};` : letter),
  "invisible name": (letter, at) => `${letter}&${pick(unseenNames, at, "")};`,
  percent: percents,
  "percent twice": (letter) => percents(letter).replace("%", "%25"),
  "percent thrice": (letter) => percents(letter).replace("%", "%2525").toUpperCase(),
  "percent of UTF-16": (letter) => unitsOf(letter, "%u"),
  "invisible percent": (letter, at) => letter + percents(pick(unseen, at, "")),
  "invisible json": (letter, at) => letter + unitsOf(pick(unseen, at, ""), "\\u"),
  json: (letter) => unitsOf(letter, "\\u"),
  "json in json": (letter) => unitsOf(letter, "\\\\u"),
  braces: (letter) => `\\u{${hexOf(letter)}}`,
  byte: (letter) => (letter <= "\u00ff" ? `\\x${hexOf(letter).padStart(2, "0")}` : unitsOf(letter, "\\u")),
  backslash: (letter) => (/[!-/:-@[-`{-~]/.test(letter) ? `\\${letter}` : letter),
  "compatible form": (letter, at) => pick(formsOf.get(letter), at, letter)
}
const kinds = Object.keys(encoders)
const plain = "plain"

/** An encoding of each character, and a further one of one character of the first one's result. */
const choice = record({
  kind: constantFrom(plain, plain, plain, ...kinds),
  over: constantFrom(plain, plain, plain, plain, ...kinds),
  at: nat(5_000),
  where: nat(20)
})

/** The text in disguise, where a reader still recognises it; else as it is. */
const disguised = (text: string): Arbitrary<string> =>
  array(choice, { minLength: text.length, maxLength: text.length }).map((choices) => {
    const written = [...text].map((letter, index) => {
      const { at = 0, kind = plain, over = plain, where = 0 } = choices[index] ?? {}
      const once = [...(encoders[kind]?.(letter, at) ?? letter)]
      const chosen = where % once.length
      return once
        .map((each, place) => (place === chosen ? (encoders[over]?.(each, at) ?? each) : each))
        .join("")
    })
    return shows(written.join(""), text) ? written.join("") : text
  })

const piece = oneof(
  { weight: 5, arbitrary: constantFrom(...corpus) },
  { weight: 2, arbitrary: FastCheck.fullUnicodeString({ maxLength: 20 }) },
  { weight: 1, arbitrary: constantFrom(..." \n\t_-:.[", "\r\n", "\\n", '\\"', "%0A", "&amp;") }
)
const glue = array(piece, { maxLength: 4 }).map((pieces) => pieces.join(""))
/** What may be before a credential or a name without making it another word. */
const edge = constantFrom(...' \n\t"(/=,', "\r\n")

/** A credential and a name, each between others' text. */
const hidden = tuple(secret, publicId, glue, glue, glue, array(edge, { minLength: 4, maxLength: 4 })).chain(
  ([one, id, before, between, after, [a, b, c, d]]) =>
    tuple(oneof(constant(one.text), disguised(one.text)), oneof(constant(id), disguised(id))).map(
      ([credential, name]) => ({
        core: one.core,
        publicId: id,
        text: `${before}${a}${credential}${b}${between}${c}${name}${d}${after}`
      })
    )
)

/** The text in one of the places that a person can fill. */
const places: ReadonlyArray<(text: string, other: string) => Partial<ReportContent>> = [
  (text) => ({ message: text }),
  (text) => ({ message: `${"word ".repeat(22)}${text}` }),
  (text, other) => ({ message: `${other}\n${text}\n${other}` }),
  (text, other) => ({ attachments: [{ name: other.slice(0, 120), content: text }] }),
  (text, other) => ({ attachments: [{ name: text, content: other }] }),
  (text) => ({ attachments: [{ name: "a", content: `${"x".repeat(15_900)}${text}` }] }),
  (text, other) => ({ context: { [other]: [other, { deep: text }] } }),
  (text, other) => ({ context: { [text]: other } }),
  (text, other) => ({ context: { [other]: JSON.stringify({ [other]: text }) } })
]

const sample = record({
  hidden,
  other: glue,
  place: constantFrom(...places),
  reporter: nat(3),
  short: boolean()
})
type Sample = typeof sample extends Arbitrary<infer A> ? A : never

const reportOf = (content: ReportContent, reporter: Reporter): StoredReport => ({
  id: "rep_4f1d9c0a7b3e4d5f8a6b2c1d0e9f8a7b",
  plane: "production",
  reporter,
  content,
  source: "cli",
  requestId: "req_0a0b0c0d0e0f",
  createdAt: Date.UTC(2026, 8, 24, 8, 15, 31),
  marker: "ffeeddccbbaa99887766554433221100",
  issue: Option.none()
})

const check = ({ hidden: found, other, place, reporter: kind, short }: Sample): ReadonlyArray<string> => {
  const size = short ? shortSize : fullSize
  const { core, publicId: id, text } = found
  const reporter = kind === 0 ? Unverified() : kind === 1 ? Anonymous() : Verified({ publicId: id })
  const stored = redactReport({
    message: other,
    pr: null,
    attachments: [],
    context: null,
    ...place(text, other)
  })
  const report = reportOf(stored, reporter)
  const issue = composeIssue(report, size)
  const published = `${issue.title}\n${issue.body}`
  return [
    ...problemsOf(issue, markerOf(report), size),
    ...(betrays(published, core) ? ["the issue shows the credential"] : []),
    ...(kind !== 1 && names(published, id, kind > 1) ? ["the issue names the reporter"] : []),
    ...(betrays(JSON.stringify(stored), core) ? ["the stored report holds the credential"] : [])
  ]
}

const searchDisguises = (seed: number, numRuns: number): ReadonlyArray<string> => {
  const result = FastCheck.check(
    FastCheck.property(sample, (one) => check(one).length === 0),
    { seed, numRuns }
  )
  const [one] = result.counterexample ?? []
  return one === undefined
    ? []
    : [`text, after ${result.numRuns}: ${check(one).join(", ")}: ${JSON.stringify(one)}`]
}

const wellFormed = (text: string, length: number): string =>
  text.slice(0, length).replace(/\p{Surrogate}/gu, "")

/** Three reports over HTTP, by reporters who are verified, unverified and nameless. */
const wholeWay = async (bench: Bench, seed: number): Promise<ReadonlyArray<string>> => {
  const { query, world } = bench
  const account = await logIn(bench)
  const id = "si:deejay"
  const all = FastCheck.sample(tuple(secret, disguised(id), glue), { seed, numRuns: 24 })
  const filed = new Map<string, ReadonlyArray<string>>()
  for (const [at, which] of ["verified", "unverified", "anonymous"].entries()) {
    const some = all.slice(at * 8, at * 8 + 8)
    const texts = some.map(([{ text }, name, other]) => `${other} ${text} ${name} ${other}`)
    const body = JSON.stringify({
      message: wellFormed(texts.join("\n"), 15_000),
      pr: "https://github.com/harbor/music/pull/12",
      attachments: texts
        .slice(0, 5)
        .map((text) => ({ name: wellFormed(text, 100), content: wellFormed(text, 9_000) })),
      context: Object.fromEntries(some.map(([{ text }, name]) => [name, text]))
    })
    if (which === "unverified")
      world.iam.fail({ path: "/api/v1/oauth/introspect", fault: iamFaults.internalError() })
    const answer = await bench.first({
      path: "/api/v1/reports",
      headers: [...newKey(), ...(which === "anonymous" ? [] : bearing(account.accessToken))],
      body
    })
    if (answer.status !== 200) return [`a hostile report was ${answer.status} ${answer.text}`]
    filed.set(
      JSON.parse(answer.text).id,
      some.map(([{ core }]) => core)
    )
  }
  const issueOf = (report: string) =>
    world.tracker.issues(repositoryName).find(({ body }) => body?.includes(report))
  const isFiled = () => [...filed.keys()].every((report) => issueOf(report) !== undefined)
  await until("all issues", isFiled, { every: 50, within: 60_000 })
  const written = [...(await writtenBy(bench))]
  return [...filed].flatMap(([report, cores]) => {
    const [row = {}] = query("SELECT marker, reporter FROM reports WHERE id = ?", report)
    const { body, title = "" } = issueOf(report) ?? {}
    const issue = { title, body: body ?? "" }
    const isNamed =
      row.reporter !== "anonymous" && names(`${title}\n${body}`, id, row.reporter !== "unverified")
    return [
      ...problemsOf(issue, `report-ref: ${report}-${row.marker}`, fullSize),
      ...(isNamed ? ["the issue names the reporter"] : []),
      ...written.flatMap(([place, text]) =>
        cores.some((core) => betrays(text, core)) ? [`${place} shows a credential`] : []
      )
    ].map((problem) => `report ${row.reporter}: ${problem}`)
  })
}

/** Samples of a full run. */
const fullCount = 20_000

export const reportAttack: IdentityAttack = {
  name: "hostile reports",
  // The count of a full run is one of connections.
  play: async (bench, seed, count) => [
    ...searchDisguises(seed, count >= 5_000 ? fullCount : count),
    ...(await wholeWay(bench, seed))
  ]
}
