/** The issue of a report: it names no reporter, shows no credential, and acts on no one, whatever a person wrote. */
import { FastCheck, Option } from "effect"
import { describe, expect, it } from "vitest"
import { version } from "../../src/schema/Release.ts"
import {
  anonymise,
  composeIssue,
  type DraftSize,
  fullSize,
  markerOf,
  shortSize
} from "../../src/services/text/IssueDraft.ts"
import { redact, redactedText, redactReport } from "../../src/services/text/Redaction.ts"
import {
  Anonymous,
  type ReportContent,
  type Reporter,
  type StoredReport,
  Unverified,
  Verified
} from "../../src/services/Store.ts"
import { cpuMillisOf } from "../world/CpuTime.ts"
import { disguised, hostile, publicId, secret } from "./text/HostileText.ts"
import { betrays, names, problemsOf, readBody, readingsOf } from "./text/IssueReader.ts"

type Content = Partial<ReportContent>

const reportOf = (content: Content = {}, more: Partial<StoredReport> = {}): StoredReport => ({
  id: "rep_4f1d9c0a7b3e4d5f8a6b2c1d0e9f8a7b",
  plane: "production",
  reporter: Verified({ publicId: "si:deejay" }),
  content: { message: "Playback stops after a seek.", pr: null, attachments: [], context: null, ...content },
  source: "cli",
  requestId: "req_0a0b0c0d0e0f",
  createdAt: Date.UTC(2026, 8, 24, 8, 15, 31),
  marker: "00112233445566778899aabbccddeeff",
  issue: Option.none(),
  removal: Option.none(),
  bytes: 1_200,
  ...more
})
/** Composes an issue, which must be harmless. */
const compose = (content: Content, size: DraftSize = fullSize, more: Partial<StoredReport> = {}) => {
  const report = reportOf(content, more)
  const issue = composeIssue(report, size)
  expect(problemsOf(issue, markerOf(report), size), JSON.stringify(content).slice(0, 1_000)).toEqual([])
  return { ...issue, text: `${issue.title}\n${issue.body}`, blocks: readBody(issue.body).blocks }
}
const attached = (name: string, content = ""): Content => ({ attachments: [{ name, content }] })

/** The same text in each place that a person can fill. */
const everywhere = (text: string, other = "x"): ReadonlyArray<Content> => [
  { message: text },
  { message: `${"word ".repeat(40)}\n${text}` },
  attached(other.slice(0, 120), text),
  attached(text, other),
  attached("a", `${"x".repeat(15_899)} ${text}`),
  { context: { [other]: [other, { deep: text }] } },
  { context: { [text]: other } },
  { context: { deep: [{ [text]: [text] }] } },
  { message: JSON.stringify({ [other]: text }) }
]

const edge = FastCheck.constantFrom(" ", "\n", "\t", '"', "(", "/", "=", ",", "\r\n")
/** Where a disguise is such that no reader recognises the text, the text itself is taken. */
const written = (text: string) =>
  FastCheck.oneof(FastCheck.constant(text), disguised(text)).map((way) =>
    readingsOf(way).some((reading) => reading.includes(text)) ? way : text
  )
/** A report that hides a credential and a name in hostile text. */
const hidden = FastCheck.record({
  one: secret,
  id: publicId,
  others: FastCheck.array(hostile, { minLength: 4, maxLength: 4 }),
  edges: FastCheck.array(edge, { minLength: 4, maxLength: 4 }),
  kind: FastCheck.nat(3),
  place: FastCheck.nat(8),
  size: FastCheck.constantFrom(fullSize, shortSize)
}).chain(({ edges, id, kind, one, others, place, size }) => {
  // JSON in a message writes a disguise again, and what is written three times no person reads.
  const way = place === 8 ? FastCheck.constant : written
  return FastCheck.tuple(way(one.text), way(id)).map(([credential, name]) => {
    const parts = [others[0], edges[0], credential, edges[1], others[1], edges[2], name, edges[3], others[2]]
    const text = parts.join("")
    const content = { ...reportOf().content, ...everywhere(text, others[3])[place] }
    const reporter: Reporter =
      kind === 0 ? Unverified() : kind === 1 ? Anonymous() : Verified({ publicId: id })
    return { content, core: one.core, id, reporter, size }
  })
})

describe("An issue", () => {
  it("acts on no one, names no reporter and shows no credential, and is not changed when it is cleaned again", () => {
    FastCheck.assert(
      FastCheck.property(hidden, ({ content, core, id, reporter, size }) => {
        const stored = redactReport(content)
        expect(redactReport(stored)).toEqual(stored)
        expect(betrays(JSON.stringify(stored), core)).toBe(false)
        const { text } = compose(stored, size, { reporter })
        expect(betrays(text, core)).toBe(false)
        const shown = text.replaceAll("\u200B", "")
        expect(redact(shown)).toBe(shown)
        expect(anonymise(shown, reporter)).toBe(shown)
        if (reporter._tag !== "Anonymous") expect(names(text, id, reporter._tag === "Verified")).toBe(false)
      }),
      { numRuns: 400 }
    )
  })

  it("has the report's metadata, its message, context and attachments, and the marker", () => {
    const { body, title } = compose({
      pr: "https://github.com/harbor/music/pull/12",
      context: { player: { volume: 3 } },
      attachments: [{ name: "my player.log", content: "line 1\nline 2" }]
    })
    expect(title).toBe("[report] Playback stops after a seek.")
    expect(body).toBe(
      [
        "- Report: `rep_4f1d9c0a7b3e4d5f8a6b2c1d0e9f8a7b`",
        `- Backend: \`music-backend/${version}\``,
        "- Source: `cli`",
        "- Created: `2026-09-24T08:15:31.000Z`",
        "- Request: `req_0a0b0c0d0e0f`",
        "- Pull request: `https://github.com/harbor/music/pull/12`",
        "\n```text\nPlayback stops after a seek.\n```",
        '\nContext:\n\n```text\n{\n  "player": {\n    "volume": 3\n  }\n}\n```',
        "\nAttachment `my_player.log`:\n\n```text\nline 1\nline 2\n```",
        "\nreport-ref: rep_4f1d9c0a7b3e4d5f8a6b2c1d0e9f8a7b-00112233445566778899aabbccddeeff"
      ].join("\n")
    )
  })

  it.each([
    ["\n \u200B\n  Fix @team \u202E #3  now\nmore", "Fix @\u200Bteam #\u200B3 now"],
    [`${markerOf(reportOf())} in a title`, `${markerOf(reportOf()).replace("-", "\u200B-")} in a title`],
    ["\u200B".repeat(12), reportOf().id],
    ["See https://github.com/a/b/issues/1", "See https:\u200B//github.com/a/b/issues/1"],
    ["🎵".repeat(200), `${"🎵".repeat(110)}…`],
    ["si:deejay and me", "[reporter] and me"],
    // A mail client's quotation decodes references.
    ["&#64;octocat &num;12 GH\\-1", "&\u200B#\u200B64;octocat &\u200Bnum;12 GH\u200B\\-1"]
  ])("takes its title from the first line that is not blank: %j", (message, title) => {
    const issue = compose({ message })
    expect(issue.title).toBe(`[report] ${title}`)
    if (message.startsWith("&")) expect(issue.body).toContain(title)
  })

  it("keeps two keys that become equal, and redacts a header in the JSON of the context", () => {
    const equal = { "a\u200B": 1, a: 2, "si:deejay": 3, "SI:deejay": 4 }
    expect(compose({ context: equal }).blocks[1]).toBe(
      '{\n  "a": 1,\n  "a": 2,\n  "[reporter]": 3,\n  "[reporter]": 4\n}'
    )
    const secrets = { "x-authorization": "0123456789abcdef0123", "Author\u200Bization": "opaque" }
    const headers = { ...secrets, authorization: ["Basic dXNlcjpwYXNz"] }
    expect(compose({ context: headers }).text).not.toMatch(/0123456789abcdef0123|opaque|dXNlcjpwYXNz/)
  })
})

const cutMark = "[cut: the stored report holds the rest]"

describe("A long report", () => {
  const units = ["é", "漢", "🎵", "`~", "@a", "GH-1 ", "\r\n", "report-ref: "]
  it.each([fullSize, shortSize])("is cut visibly to %j, and keeps the marker", (size) => {
    for (const unit of units) {
      const message = unit.repeat(Math.ceil(size.characters / unit.length))
      const attachments = Array.from({ length: 2 }, () => ({ name: message.slice(0, 120), content: message }))
      const { blocks, body } = compose({ message, attachments, context: { message } }, size)
      expect(body).toContain(cutMark)
      expect(blocks.length).toBeGreaterThan(1)
    }
  })

  it("has 40,000 characters of the message, 16,000 of each other part, and says what it leaves out", () => {
    for (const message of [`${"word ".repeat(3999)}last.`, "@ana ".repeat(4_000)])
      expect(compose({ message }).body).not.toContain("[cut:")
    expect(compose({ message: "a".repeat(40_001) }).blocks[0]).toBe(`${"a".repeat(40_000 - 40)}\n${cutMark}`)
    const long = "a".repeat(50_000)
    const attachments = [1, 2].map((name) => ({ name: `${name}.log`, content: long }))
    const { blocks } = compose({ context: { long }, attachments })
    expect(blocks.slice(1).map((text) => text.length)).toEqual([16_000, 16_000, 16_000])
    const wide = "漢".repeat(100_000)
    const five = Array.from({ length: 5 }, () => ({ name: "a", content: wide }))
    expect(compose({ message: wide, attachments: five }).body).toContain(
      "[left out: the stored report holds more]"
    )
  })
})

describe("The reporter's id", () => {
  const far = `si&#${"0".repeat(5_000)}58;deejay`
  it.each([
    "si:deejay and si:deejay2 → [reporter] and si:deejay2",
    "si:deejaysi:deejay si:deejayc:ana → [reporter][reporter] [reporter]c:ana",
    "actor:si:deejay, \\nsi:deejay → actor:[reporter], \\n[reporter]",
    "si:dee\u200Bjay\u200B. a\u200B si%3Adeejay \u00AD → [reporter]\u200B. a\u200B [reporter] \u00AD",
    `\\u0073i:deejay, si%253adeejay\u{1D500}, ${far} → [reporter], [reporter]\u{1D500}, [reporter]`,
    "si:deejay\u0300 si:deejay\u00E9 si:deejay\u3055 → [reporter]\u0300 [reporter]\u00E9 [reporter]\u3055",
    "si deejay, si;deejay, deejay, si:dee&item=jay → si deejay, si;deejay, deejay, si:dee&item=jay",
    "xsi_deejay si_deejay/si_deejay2 → xsi_deejay [reporter]/si_deejay2",
    "si:deejay[acme] si:deejay-laptop → [reporter][acme] [reporter]-laptop"
  ])("is replaced, and similar ones stay: %s", (row) => {
    const [text = "", clean] = row.split(" → ")
    expect(anonymise(text, Verified({ publicId: "si:deejay" }))).toBe(clean)
  })

  it.each([
    "si:deejay-laptop, c:ana_1 and SI:Lyra[acme] → [reporter], [reporter] and [reporter][acme]",
    "actor_si:deejay actor=c:ana actor:c:ana → actor_[reporter] actor=[reporter] actor:[reporter]",
    "si:deejaysi:deejay c:anac:ana:x → [reporter] [reporter]:x",
    `c:${"a".repeat(30)} si:${"a".repeat(50)} → [reporter] [reporter]`,
    "c:ab si:ab sync:error xsi:deejay https://host → c:ab si:ab sync:error xsi:deejay https://host",
    "si\u200B:dee\u200Bjay si%3Adeejay → [reporter] [reporter]",
    "x\\nsi:deejay%0Ac:ana → x\\n[reporter]%0A[reporter]",
    "si:dee%6Aay c:ana\\u002dmaria → [reporter] [reporter]",
    "/cache/si_deejay/c_ana.log → /cache/[reporter]/[reporter].log"
  ])("is any id when the reporter is unknown: %s", (row) => {
    const [text = "", clean] = row.split(" → ")
    expect(anonymise(text, Unverified())).toBe(clean)
  })

  it("is removed from file names, the request's id and the pull request", () => {
    for (const name of ["si:deejay.log", "si_deejay.log", "si/deejay", "my si\u200B deejay", "si%3Adeejay"])
      expect(compose(attached(name)).text).not.toMatch(/si_+deejay/i)
    expect(compose(attached("si_deejay2.log")).text).toContain("`si_deejay2.log`")
    const more = { reporter: Verified({ publicId: "si:123" }), requestId: "req.si_123.x" }
    const { body } = compose({ pr: "https://si:123@host/si;123" }, fullSize, more)
    expect(body).toContain("- Request: `req._reporter_.x`")
    expect(body).not.toMatch(/si[:_]123/)
    // Of a reporter who is not verified, any id.
    const unverified = { requestId: "req.si:deejay.x", reporter: Unverified() }
    const issue = compose({ ...attached("c_jane.log"), pr: "https://host/c:jane" }, fullSize, unverified)
    expect(issue.text).not.toMatch(/deejay|jane/i)
  })

  it("does not appear when a longer handle is cut", () => {
    // The handle with its blanks has twelve characters.
    for (let before = 0; before < 12; before += 1)
      for (const size of [fullSize, shortSize]) {
        const message = `${"x".repeat(before)} si:deejay2 `.repeat(size.characters / 8)
        const { text } = compose({ message, ...attached(message.slice(0, 120)) }, size)
        expect(text).not.toMatch(/si:deejay(?!2)/)
      }
  })

  it("is none of an anonymous reporter, whose text keeps the names of others", () => {
    const anonymous = { requestId: "req.si:deejay.x", reporter: Anonymous() }
    const { body, title } = compose({ message: "si:deejay and c:jane" }, fullSize, anonymous)
    expect(title).toBe("[report] si:deejay and c:jane")
    expect(body).toContain("req.si:deejay.x")
  })
})

it("A credential is not formed by what an issue leaves out", () => {
  const spaced = `Authorization:\u200B${"\u00A0".repeat(9)}0123456789abcdef`
  expect(compose({ message: spaced }).title).not.toContain("0123456789abcdef")
  expect(compose(attached(`oat ${"a1B2".repeat(8)}.log`)).text).not.toContain("a1B2")
})

/** Parts of what is searched for, over and over. */
const pieces =
  `\u200B|a\u200B|\\|\\u|\\u003a|%25|%|&amp;|&#58;|&#0|&#x|0|\\u{0|%ud83d|c:abc|c:|\uFF1A|\uFDFA|si:deeja|si:deejay
|oat_|oat_a\u200B|bearer |authorization: |\uD800|\u00E9|a|1|-|_|basic-a|basic a|xoat_a_|table-a-|Bearer a.|gh|\\u006fat_|\\"`.split(
    /\n?\|/
  )

it.each(pieces)("An issue of much of the same text is composed in bounded time: %j", (piece) => {
  // The beginning keeps the search from passing over a plain text.
  const text = `bearer ${piece.repeat(Math.floor(50_000 / piece.length))}`
  for (const reporter of [reportOf().reporter, Unverified()]) {
    const content = { message: text.slice(0, 20_000), ...attached(text.slice(0, 120), text) }
    const context = { text: text.slice(0, 8_000) }
    const took = cpuMillisOf(() => composeIssue(reportOf({ ...content, context }, { reporter })))
    expect(took).toBeLessThan(1_000)
  }
})

it("A context of many keys or named headers costs little", () => {
  const keys = Array.from({ length: 4_000 }, (_, index) => [String.fromCodePoint(0xe0000 + index), 1])
  const inside = (value: unknown, depth: number): unknown =>
    depth === 0 ? value : ["x-testing-key", inside(value, depth - 1)]
  const values = Array.from({ length: 14_000 }, () => "a")
  for (const context of [Object.fromEntries(keys), { inside: inside(values, 60) }])
    expect(cpuMillisOf(() => composeIssue(reportOf({ context })))).toBeLessThan(1_000)
})

it("A text whose replacements keep completing another credential or id is replaced as a whole", () => {
  // A written `\\e` takes the bracket of a replacement with it: what is left of it ends the token or the id before.
  const chained = (link: string, count: number) => `${link.repeat(count)}oat_${"a1B2".repeat(10)}`
  expect(redact(`kept ${chained("oat_AAAAAAAAA\\e", 2)}`)).toBe(`kept ${redactedText}]]`)
  const reporter = Verified({ publicId: "c:xedacted" })
  for (const link of ["oat_AAAAAAAAA\\e", "oat_AAAAAAAAA\\ec:x\\e"]) {
    let issue = ""
    const took = cpuMillisOf(() => {
      issue = composeIssue(reportOf(attached("a.log", chained(link, 6_000)), { reporter })).body
    })
    expect(issue).toContain(`\`\`\`text\n${redactedText}\n\`\`\``)
    expect(took).toBeLessThan(1_000)
  }
})
