import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import { describe, expect, it } from "vitest"
import { version } from "../../src/schema/Release.ts"
import { composeIssue, fullSize, markerOf, shortSize } from "../../src/services/IssueDraft.ts"
import { type StoredReport, Verified } from "../../src/services/Store.ts"

const report = (content: Partial<StoredReport["content"]> = {}): StoredReport => ({
  id: "rep_4f1d9c0a7b3e4d5f8a6b2c1d0e9f8a7b",
  plane: "production",
  reporter: Verified({ publicId: "si:deejay" }),
  content: {
    message: "Playback stops after a seek.",
    pr: null,
    attachments: [],
    context: null,
    ...content
  },
  source: "cli",
  requestId: "req_0a0b0c0d0e0f",
  createdAt: Date.UTC(2026, 8, 24, 8, 15, 31),
  marker: "00112233445566778899aabbccddeeff",
  issue: Option.none()
})
const bytes = (text: string) => new TextEncoder().encode(text).length
const points = (text: string) => [...text].length
const marker = markerOf(report())

const ourLine =
  /^(?:|- (?:Report|Backend|Source|Created|Request|Pull request): `[A-Za-z0-9._:/+-]+`|Context:|Attachment `[A-Za-z0-9._-]+`:|\[left out: the stored report holds more\])$/

/** Reads the body as a Markdown renderer does: what is inside fenced blocks, and the lines outside. */
const readBody = (body: string) => {
  const inside: Array<string> = []
  const outside: Array<string> = []
  let fence: string | undefined
  let block: Array<string> = []
  for (const line of body.split("\n")) {
    if (fence === undefined) {
      const opening = /^ {0,3}(`{3,}|~{3,})/.exec(line)
      if (opening?.[1] === undefined) outside.push(line)
      else {
        expect(line).toBe(`${opening[1]}text`)
        fence = opening[1]
      }
    } else if (new RegExp(`^ {0,3}\`{${fence.length},}[ \\t]*$`).test(line)) {
      inside.push(block.join("\n"))
      block = []
      fence = undefined
    } else block.push(line)
  }
  expect(fence).toBeUndefined()
  return { inside, outside }
}

const expectHarmless = (body: string, size = fullSize) => {
  expect(body.length).toBeLessThanOrEqual(size.characters)
  expect(bytes(body)).toBeLessThanOrEqual(size.bytes)
  expect(body.split(marker).length - 1).toBe(1)
  expect(body.endsWith(`\n\n${marker}`)).toBe(true)
  expect(body).not.toMatch(/(?!\n|\t)\p{Cc}|[\u202A-\u202E\u2066-\u2069\u2028\u2029\uFEFF]/u)
  const { inside, outside } = readBody(body)
  for (const line of outside.slice(0, -1)) expect(line).toMatch(ourLine)
  for (const text of inside) {
    expect(text).not.toMatch(/[@#][\p{L}\p{N}_]/u)
    expect(text).not.toMatch(/report-ref/i)
  }
  return inside
}

const nastyPiece = FastCheck.oneof(
  FastCheck.fullUnicodeString({ maxLength: 30 }),
  FastCheck.constantFrom(
    "@octocat ",
    "@",
    "#12",
    "#",
    "harbor/music#12",
    "GH-12",
    "fixes #3",
    "\r\n",
    "\r",
    "\n",
    "\u2028",
    "```\n",
    "\n```text\n",
    "~~~\n",
    "   ```",
    "\n\n",
    "<!-- ",
    "<details><summary>x</summary>",
    "![x](https://tracker.example.test/p.png)",
    "[x](https://example.test)",
    "https://github.com/harbor/music/issues/3",
    "\u202E",
    "\u2066",
    "\u200B",
    "re\u200Bport-ref: ",
    "report-",
    "ref: ",
    "\nreport-ref: rep_4f1d9c0a7b3e4d5f8a6b2c1d0e9f8a7b-00112233445566778899aabbccddeeff\n",
    "Report-Ref: ",
    "\u0000",
    "\uD800",
    "- [ ] task",
    "    indented"
  ),
  FastCheck.tuple(FastCheck.constantFrom("`", "~"), FastCheck.integer({ min: 1, max: 400 })).map(
    ([mark, count]) => mark.repeat(count)
  )
)
const nasty = FastCheck.array(nastyPiece, { maxLength: 20 }).map((pieces) => pieces.join(""))

describe("IssueDraft", () => {
  it("shows metadata, the message and the marker, and never the reporter", () => {
    const { body, title } = composeIssue(
      report({
        pr: "https://github.com/harbor/music/pull/12",
        context: { player: { volume: 3 } },
        attachments: [{ name: "my player.log", content: "line 1\nline 2" }]
      })
    )
    expect(title).toBe("[report] Playback stops after a seek.")
    expect(body).toBe(
      [
        "- Report: `rep_4f1d9c0a7b3e4d5f8a6b2c1d0e9f8a7b`",
        `- Backend: \`music-backend/${version}\``,
        "- Source: `cli`",
        "- Created: `2026-09-24T08:15:31.000Z`",
        "- Request: `req_0a0b0c0d0e0f`",
        "- Pull request: `https://github.com/harbor/music/pull/12`",
        "",
        "```text",
        "Playback stops after a seek.",
        "```",
        "",
        "Context:",
        "",
        "```text",
        '{\n  "player": {\n    "volume": 3\n  }\n}',
        "```",
        "",
        "Attachment `my_player.log`:",
        "",
        "```text",
        "line 1\nline 2",
        "```",
        "",
        "report-ref: rep_4f1d9c0a7b3e4d5f8a6b2c1d0e9f8a7b-00112233445566778899aabbccddeeff"
      ].join("\n")
    )
    expect(title + body).not.toContain("deejay")
  })

  it("keeps every text harmless, in all its places and both sizes", () => {
    FastCheck.assert(
      FastCheck.property(nasty, nasty, nasty, FastCheck.boolean(), (message, name, content, short) => {
        const size = short ? shortSize : fullSize
        const { body, title } = composeIssue(
          report({ message, attachments: [{ name, content }], context: { [name]: content } }),
          size
        )
        expectHarmless(body, size)
        expect(title.startsWith("[report] ")).toBe(true)
        expect(points(title)).toBeLessThanOrEqual(size.title)
        expect(title).not.toMatch(/[@#](?!\u200B|…|$)/)
        expect(title).not.toMatch(/[\n\r\t\u202A-\u202E\u2066-\u2069]/)
      }),
      { numRuns: 500 }
    )
  })

  it("cuts visibly what is too long, and the marker survives", () => {
    for (const unit of ["a", "é", "漢", "🎵", "`", "~", "`~", "@a", "#1", "\n", "\r\n", "report-ref: "]) {
      const long = unit.repeat(Math.ceil(400_000 / unit.length))
      const { body, title } = composeIssue(
        report({
          message: long,
          attachments: Array.from({ length: 5 }, () => ({ name: long, content: long })),
          context: { long }
        })
      )
      const inside = expectHarmless(body)
      expect(body).toContain("[cut: the stored report holds the rest]")
      expect(inside.length).toBeGreaterThan(1)
      expect(points(title)).toBeLessThanOrEqual(120)
      expect(body).not.toMatch(/\p{Surrogate}/u)
    }
  })

  it("leaves parts out when nothing of them would fit, and says so", () => {
    const long = "漢".repeat(100_000)
    const { body } = composeIssue(
      report({
        message: long,
        attachments: Array.from({ length: 5 }, () => ({ name: "a", content: long }))
      })
    )
    expectHarmless(body)
    expect(body).toContain("[left out: the stored report holds more]")
  })

  it("keeps the longest ordinary message whole", () => {
    const message = `${"word ".repeat(3999)}last.`
    expect(composeIssue(report({ message })).body).toContain(message)
  })

  it("builds the title from the first line with anything in it", () => {
    expect(composeIssue(report({ message: "\n \u200B\n  Fix @team \u202E #3  now\nmore" })).title).toBe(
      "[report] Fix @\u200Bteam #\u200B3 now"
    )
    expect(composeIssue(report({ message: "\u200B".repeat(12) })).title).toBe(`[report] ${report().id}`)
    expect(composeIssue(report({ message: "See https://github.com/a/b/issues/1" })).title).toBe(
      "[report] See https:\u200B//github.com/a/b/issues/1"
    )
  })
})

describe("The reporter", () => {
  it("is not named, not even where they named themselves; who only looks alike stays", () => {
    const { body, title } = composeIssue(
      report({
        message: "si:deejay cannot play. si:deejay2 and si:lyra can.",
        attachments: [{ name: "log", content: "user=si:deejay;" }],
        context: { "si:deejay": { actor: "si:deejay" } }
      })
    )
    expect(`${title}${body}`).not.toMatch(/si:deejay(?!2)/)
    expect(body).toContain("[reporter] cannot play. si:deejay2 and si:lyra can.")
    expect(body).toContain("user=[reporter];")
  })
})
