/**
 * Hostile reports against the issue that is published of them: markup, references, forged markers, and credentials and names in
 * disguise. Most are composed in memory; some go the whole way, to the tracker and into the database.
 */
import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import { iamFaults } from "../../../sandbox/upstreams/Iam.ts"
import { composeIssue, fullSize, markerOf, shortSize } from "../../../src/services/IssueDraft.ts"
import { redactReport } from "../../../src/services/Redaction.ts"
import type { ReportContent } from "../../../src/services/Store.ts"
import {
  Anonymous,
  type Reporter,
  type StoredReport,
  Unverified,
  Verified
} from "../../../src/services/Store.ts"
import { until } from "../../durability/Client.ts"
import type { ApartAttack } from "./ApartAttack.ts"
import { bearing, type Bench, type HeaderLines, logIn, newKey, send, withBench } from "./Bench.ts"
import { disguised, publicId, type Secret, secret } from "./Disguises.ts"
import { actsOutside, betrays, controls, names, readIssue, readingsOf } from "./PublishedText.ts"

const forged = "report-ref: rep_4f1d9c0a7b3e4d5f8a6b2c1d0e9f8a7b-00112233445566778899aabbccddeeff"

/** Text that renders, refers, notifies, or imitates the service. */
const corpus: ReadonlyArray<string> = [
  "@octocat",
  "@harbor/maintainers",
  "`@octocat`",
  "\uff20octocat",
  "@\u200boctocat",
  "&#64;octocat",
  "&commat;octocat",
  "@&#111;ctocat",
  "\\@octocat",
  "#1",
  "GH-1",
  "gh-1",
  "GH\\-1",
  "harbor/music#1",
  "&num;1",
  "fixes #1",
  "Closes: harbor/music#1",
  "https://github.com/harbor/music/issues/1",
  "https://github.com/harbor/music/commit/0123456789abcdef0123456789abcdef01234567",
  "0123456789abcdef0123456789abcdef01234567",
  "![x](https://tracker.example.test/pixel.png)",
  "![x][y]\n\n[y]: https://tracker.example.test/pixel.png",
  "<img src=https://tracker.example.test/pixel.png onerror=alert(1)>",
  "[x](javascript:alert(1))",
  "[x](data:text/html;base64,PHNjcmlwdD4=)",
  "<https://example.test/>",
  "<script>alert(1)</script>",
  "<!-- hidden -->",
  "<!--",
  "-->",
  `<!-- ${forged} -->`,
  forged,
  `\n\n${forged}`,
  "report\u00ad-ref: rep_1",
  "REPORT-REF:",
  "report-\nref: rep_1",
  "</details>",
  "<details><summary>more</summary>",
  "---\ntitle: forged\n---",
  "- Report: `rep_00000000000000000000000000000000`",
  "Attachment `x`:",
  "[left out: the stored report holds more]",
  "| a | b |\n| - | - |\n| c | d |",
  "[^1]\n\n[^1]: note",
  "$\\href{https://example.test}{x}$",
  "```math\nx\n```",
  "- [ ] task\n- [x] done",
  "    indented",
  "\tindented",
  "> quoted",
  "# heading",
  "```",
  "````",
  "\n```\n",
  "\r```\r",
  "\u2028```\u2028",
  "\u0085```\u0085",
  "   ```   ",
  "~~~",
  "\n~~~~~~~\n",
  "\n```text\nx\n",
  "```` ```",
  "`".repeat(61),
  "`".repeat(400),
  "~".repeat(400),
  "\u0000",
  "\u001b[31mred\u001b[0m",
  "\u202eright to left",
  "\u2066isolated",
  "\u{e0041}\u{e007f}",
  "\u200f",
  "x".repeat(3_000),
  "\u6f22".repeat(700),
  "\u{1f3b5}".repeat(700),
  "\\",
  "%",
  "&",
  '"',
  ":smile:"
]

const piece = FastCheck.oneof(
  { weight: 5, arbitrary: FastCheck.constantFrom(...corpus) },
  { weight: 2, arbitrary: FastCheck.fullUnicodeString({ maxLength: 20 }) },
  {
    weight: 1,
    arbitrary: FastCheck.constantFrom(
      " ",
      "\n",
      "\r\n",
      "\t",
      "_",
      "-",
      ":",
      ".",
      "[",
      "\\n",
      '\\"',
      "%0A",
      "&amp;"
    )
  }
)

interface Hidden {
  readonly secret: Secret
  readonly publicId: string
  readonly reporter: Reporter
  readonly content: ReportContent
  readonly short: boolean
}

const glue = FastCheck.array(piece, { maxLength: 4 }).map((pieces) => pieces.join(""))
/** What may be before a credential or a name without making it another word. */
const edge = FastCheck.constantFrom(" ", "\n", "\t", '"', "(", "/", "=", ",", "\r\n")

/** The text in one of the places that a person can fill. */
const place = (text: string, others: ReadonlyArray<string>): FastCheck.Arbitrary<ReportContent> => {
  const [one = "", two = "", three = ""] = others
  const empty = { message: one, pr: null, attachments: [], context: null } as const
  return FastCheck.constantFrom<ReportContent>(
    { ...empty, message: text },
    { ...empty, message: `${"word ".repeat(22)}${text}` },
    { ...empty, message: `${one}\n${text}\n${two}` },
    { ...empty, attachments: [{ name: two.slice(0, 120), content: text }] },
    { ...empty, attachments: [{ name: text, content: three }] },
    { ...empty, attachments: [{ name: "a", content: `${"x".repeat(15_900)}${text}` }] },
    { ...empty, context: { [two]: [three, { deep: text }] } },
    { ...empty, context: { [text]: two } },
    { ...empty, context: { [two]: JSON.stringify({ [three]: text }) } }
  )
}

const hidden: FastCheck.Arbitrary<Hidden> = FastCheck.tuple(
  secret,
  publicId,
  FastCheck.array(glue, { minLength: 6, maxLength: 6 }),
  FastCheck.tuple(edge, edge, edge, edge),
  FastCheck.nat(3),
  FastCheck.boolean()
).chain(([one, id, others, [a, b, c, d], kind, short]) =>
  FastCheck.tuple(
    FastCheck.oneof(FastCheck.constant(one.text), disguised(one.text)),
    FastCheck.oneof(FastCheck.constant(id), disguised(id))
  ).chain(([credential, name]) => {
    // Only what a reader recognises was in disguise.
    const isReadable = (text: string, as: string) =>
      [...readingsOf(text)].some((reading) => reading.includes(as))
    const written = isReadable(credential, one.text) ? credential : one.text
    const named = isReadable(name, id) ? name : id
    const text = `${others[3]}${a}${written}${b}${others[4]}${c}${named}${d}${others[5]}`
    return place(text, others).map(
      (content): Hidden => ({
        secret: one,
        publicId: id,
        reporter: kind === 0 ? Unverified() : kind === 1 ? Anonymous() : Verified({ publicId: id }),
        content,
        short
      })
    )
  })
)

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

interface Published {
  readonly title: string
  readonly body: string
}

/** What is wrong with an issue; `marker` is its own last line. */
const checkIssue = (
  { body, title }: Published,
  marker: string,
  size: { readonly title: number; readonly characters: number; readonly bytes: number }
): ReadonlyArray<string> => {
  const { blocks, problems } = readIssue(body)
  const broken = [...problems]
  if (!body.endsWith(`\n\n${marker}`)) broken.push("the marker is not the last line")
  if (body.split(/report-ref: /i).length !== 2) broken.push("another marker")
  if (body.length > size.characters || Buffer.byteLength(body) > size.bytes)
    broken.push("the body is too long")
  if ([...title].length > size.title) broken.push("the title is too long")
  if (!title.startsWith("[report] ") || /[\n\r\t]/.test(title))
    broken.push(`the title ${JSON.stringify(title)}`)
  for (const [what, text] of [
    ["title", title],
    ...blocks.map((block) => ["block", block] as const)
  ] as const) {
    for (const act of actsOutside(text)) broken.push(`the ${what} has ${act}`)
    if (controls.test(text)) broken.push(`the ${what} has control characters`)
  }
  return broken
}

const check = ({
  content,
  publicId: id,
  reporter,
  secret: { core },
  short
}: Hidden): ReadonlyArray<string> => {
  const size = short ? shortSize : fullSize
  const stored = redactReport(content)
  const report = reportOf(stored, reporter)
  const issue = composeIssue(report, size)
  const broken = [...checkIssue(issue, markerOf(report), size)]
  const text = `${issue.title}\n${issue.body}`
  if (betrays(text, core)) broken.push("the issue shows the credential")
  if (reporter._tag !== "Anonymous" && names(text, id, reporter._tag === "Verified"))
    broken.push("the issue names the reporter")
  if (betrays(JSON.stringify(stored), core)) broken.push("the stored report holds the credential")
  return broken
}

/** Samples of one property; a smaller slice at a time, so that other attacks get a turn. */
const atATime = 50

const searchDisguises = async (seed: number, count: number): Promise<ReadonlyArray<string>> => {
  for (let done = 0; done < count; done += atATime) {
    const result = FastCheck.check(
      FastCheck.property(hidden, (sample) => check(sample).length === 0),
      { seed: seed + done, numRuns: Math.min(atATime, count - done) }
    )
    if (result.failed) {
      const [sample] = result.counterexample ?? []
      return [
        `text, seed ${seed + done}, after ${result.numRuns}: ${sample === undefined ? "" : check(sample).join(", ")}: ${JSON.stringify(sample)} ${result.errorInstance ?? ""}`
      ]
    }
    await new Promise((turn) => setImmediate(turn))
  }
  return []
}

/** Every way to write one character, exhaustively, in a credential and in a name. */
const wholeWay = async (bench: Bench, seed: number): Promise<ReadonlyArray<string>> => {
  const { log, query, world } = bench
  const account = await logIn(bench)
  const samples = FastCheck.sample(
    FastCheck.tuple(secret, FastCheck.array(glue, { minLength: 5, maxLength: 5 })).chain(([one, others]) =>
      FastCheck.tuple(disguised(one.text), disguised(account.publicId)).map(([credential, name]) => ({
        core: one.core,
        credential: [...readingsOf(credential)].some((reading) => reading.includes(one.text))
          ? credential
          : one.text,
        name: names(name, account.publicId) ? name : account.publicId,
        others
      }))
    ),
    { seed, numRuns: 24 }
  )
  const broken: Array<string> = []
  const ids = new Map<string, ReadonlyArray<string>>()
  for (const [at, which] of (["verified", "unverified", "anonymous"] as const).entries()) {
    const some = samples.slice(at * 8, at * 8 + 8)
    const text = some
      .map(({ credential, name, others }) => `${others[0]} ${credential} ${name} ${others[1]}`)
      .join("\n")
    const wellFormed = (given: string) => given.replace(/\p{Surrogate}/gu, "")
    const body = JSON.stringify({
      message: wellFormed(text)
        .slice(0, 15_000)
        .replace(/[\ud800-\udbff]$/, ""),
      pr: "https://github.com/harbor/music/pull/12",
      attachments: some.slice(0, 5).map(({ credential, name, others }) => ({
        name: wellFormed(`${credential}.log`)
          .slice(0, 100)
          .replace(/[\ud800-\udbff]$/, ""),
        content: wellFormed(`${others[2]} ${name} ${credential}`)
      })),
      context: Object.fromEntries(
        some.slice(5).map(({ credential, name }) => [wellFormed(name), wellFormed(credential)])
      )
    })
    if (which === "unverified")
      world.iam.fail({ path: "/api/v1/oauth/introspect", fault: iamFaults.internalError() })
    const headers: HeaderLines = [
      ["Idempotency-Key", newKey()],
      ["X-Request-Id", "si_deejay-0123456789"],
      ...(which === "anonymous" ? [] : bearing(account.accessToken))
    ]
    const answer = await send(bench.first, { path: "/api/v1/reports", headers, body })
    if (answer.status !== 200) return [`a hostile report was ${answer.status} ${answer.body}`]
    ids.set(
      JSON.parse(answer.body).id,
      some.map(({ core }) => core)
    )
  }
  await until("all issues", () => world.tracker.issues("harbor/music").length >= ids.size, {
    every: 50,
    within: 60_000
  })
  const logged = log.join("\n")
  for (const [id, cores] of ids) {
    const [row = {}] = query("SELECT * FROM reports WHERE id = ?", id)
    const issue = world.tracker.issues("harbor/music").find(({ body }) => body?.includes(id))
    const found = { title: issue?.title ?? "", body: issue?.body ?? "" }
    const marker = `report-ref: ${id}-${row.marker}`
    const problems = [...checkIssue(found, marker, fullSize)]
    const text = `${found.title}\n${found.body}`
    if (row.reporter !== "anonymous" && names(text, account.publicId, row.reporter !== "unverified"))
      problems.push("the issue names the reporter")
    for (const core of cores)
      for (const [what, shown] of [
        ["issue", text],
        ["row", String(row.content)],
        ["log", logged],
        ["spool", JSON.stringify(query("SELECT json FROM spool"))]
      ] as const)
        if (betrays(shown, core)) problems.push(`the ${what} shows a credential`)
    broken.push(...problems.map((problem) => `report ${row.reporter}: ${problem}`))
  }
  return broken
}

/** Samples of a full run. */
const fullCount = 20_000

export const reportAttack: ApartAttack = {
  name: "hostile reports",
  play: async (seed, count) => {
    // The count of a full run is one of connections.
    const samples = count >= 5_000 ? fullCount : count
    return [...(await searchDisguises(seed, samples)), ...(await withBench((bench) => wholeWay(bench, seed)))]
  }
}
