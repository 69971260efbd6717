import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import { describe, expect, it } from "vitest"
import { version } from "../../src/schema/Release.ts"
import { anonymise } from "../../src/services/Anonymisation.ts"
import { composeIssue, fullSize, markerOf, shortSize } from "../../src/services/IssueDraft.ts"
import { redact } from "../../src/services/Redaction.ts"
import { Anonymous, type StoredReport, Unrecognised, Unverified, Verified } from "../../src/services/Store.ts"
import { names, readingsOf, shows } from "../support/Reader.ts"
import { cpuMillisOf } from "../support/CpuTime.ts"

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
    expect(text).not.toMatch(/\bGH-\d/i)
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
  it("shows metadata, the message and the marker, never the reporter", () => {
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

  it("neutralises every text, in every field and both sizes", () => {
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
        expect(title).not.toMatch(/\bGH-\d/i)
        expect(title).not.toMatch(/[\n\r\t\u202A-\u202E\u2066-\u2069]/)
      }),
      { numRuns: 300 }
    )
  })

  it.each([fullSize, shortSize])("cuts long text visibly to %j, and keeps the marker", (size) => {
    for (const unit of [
      "a",
      "é",
      "漢",
      "🎵",
      "`",
      "~",
      "`~",
      "@a",
      "#1",
      "GH-1 ",
      "\n",
      "\r\n",
      "report-ref: "
    ]) {
      const long = unit.repeat(Math.ceil(400_000 / unit.length))
      const { body, title } = composeIssue(
        report({
          message: long,
          attachments: Array.from({ length: 5 }, () => ({ name: long.slice(0, 120), content: long })),
          context: { long }
        }),
        size
      )
      const inside = expectHarmless(body, size)
      expect(body).toContain("[cut: the stored report holds the rest]")
      expect(inside.length).toBeGreaterThan(1)
      expect(points(title)).toBeLessThanOrEqual(size.title)
      expect(body).not.toMatch(/\p{Surrogate}/u)
    }
  })

  it("omits parts of which nothing would fit, and states that", () => {
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

  it("cuts a part that has too many bytes but not too many characters", () => {
    const attachments = [{ name: "log", content: "漢".repeat(900) }]
    const { body } = composeIssue(report({ message: "漢".repeat(4_500), attachments }), shortSize)
    expect(expectHarmless(body, shortSize)[1]).toContain("[cut: the stored report holds the rest]")
  })

  it("leaves out a part of which less than 200 characters would fit", () => {
    for (let length = 3_000; length < 3_700; length += 20) {
      const attachments = [16_000, length, 500].map((size) => ({ name: "log", content: "a".repeat(size) }))
      const inside = expectHarmless(composeIssue(report({ message: "a".repeat(40_000), attachments })).body)
      expect(Math.min(...inside.map((text) => text.length))).toBeGreaterThanOrEqual(200)
    }
  })

  it("keeps the longest ordinary message complete, and cuts a longer one to 40,000 characters", () => {
    for (const message of [`${"word ".repeat(3999)}last.`, "@ana ".repeat(4_000)])
      expect(composeIssue(report({ message })).body).not.toContain("[cut:")
    const { body } = composeIssue(report({ message: "a".repeat(40_001) }))
    expect(body).toContain("[cut: the stored report holds the rest]")
    expect(body).toContain("a".repeat(39_000))
  })

  it("gives the context and each attachment 16,000 characters", () => {
    const long = "a".repeat(50_000)
    const attachments = [1, 2].map((name) => ({ name: `${name}.log`, content: long }))
    const { inside } = readBody(composeIssue(report({ context: { long }, attachments })).body)
    expect(inside.slice(1).map((text) => text.length)).toEqual([16_000, 16_000, 16_000])
  })

  it("is shorter than the tracker's limit of 65,536 characters, and has 120 characters of title", () => {
    expect(fullSize.characters).toBeLessThan(65_536)
    const { title } = composeIssue(report({ message: "🎵".repeat(200) }))
    expect(title).toBe(`[report] ${"🎵".repeat(110)}…`)
  })

  it("breaks mentions and references also where a mail client's quotation decodes them", () => {
    const { body, title } = composeIssue(
      report({ message: "&#64;octocat &num;12 @&#111;ctocat GH\\-1 GH&#45;1" })
    )
    for (const text of [title, body])
      expect(text).toContain(
        "&\u200B#\u200B64;octocat &\u200Bnum;12 @\u200B&\u200B#\u200B111;ctocat GH\u200B\\-1 GH&\u200B#\u200B45;1"
      )
  })

  it("builds the title from the first line that is not blank", () => {
    expect(composeIssue(report({ message: "\n \u200B\n  Fix @team \u202E #3  now\nmore" })).title).toBe(
      "[report] Fix @\u200Bteam #\u200B3 now"
    )
    expect(composeIssue(report({ message: `${marker} in a title` })).title).toMatch(
      /^\[report\] report\u200B-ref: /
    )
    for (const text of Object.values(composeIssue(report({ message: "report\\-ref: x" }))))
      expect(text).toContain("report\u200B\\-ref: x")
    expect(composeIssue(report({ message: "\u200B".repeat(12) })).title).toBe(`[report] ${report().id}`)
    expect(composeIssue(report({ message: "See https://github.com/a/b/issues/1" })).title).toBe(
      "[report] See https:\u200B//github.com/a/b/issues/1"
    )
  })
})

const oat = `oat_${"a1B2".repeat(8)}`
const published = (content: Partial<StoredReport["content"]>, size = fullSize): string => {
  const { body, title } = composeIssue(report(content), size)
  return `${title}\n${body}`
}
/** The same text in each place that a person can fill, where the place takes it. */
const everywhere = (text: string): ReadonlyArray<Partial<StoredReport["content"]>> => [
  { message: text },
  { message: `${"word ".repeat(40)}\n${text}` },
  { attachments: [{ name: "log", content: text }] },
  { attachments: [{ name: text, content: "" }] },
  { context: { text } },
  { context: { [text]: 1 } },
  { context: { deep: [{ [text]: [text] }] } },
  { message: JSON.stringify({ text }) },
  { message: JSON.stringify(JSON.stringify({ text })) }
]

describe("The reporter's id", () => {
  it("is removed also from the reporter's own text; similar longer ids stay", () => {
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

  it.each([
    ["line one\nsi:deejay", "after a line break"],
    ["tab\tsi:deejay", "after a tab"],
    ["actor:si:deejay", "after a colon"],
    ["actor_si:deejay", "after an underscore"],
    ["actor-si:deejay", "after a hyphen"],
    ["\\nsi:deejay", "after an escaped line break in the text itself"],
    ["xsi:deejay", "after a letter"],
    ["si:dee\u200Bjay", "with an invisible character inside"],
    ["s\u00ADi\u2060:\uFE0Fdeejay\u{E0061}", "with invisible characters everywhere"],
    ["si:\u0007dee\u0000jay", "with control characters inside"],
    ["SI:DeeJay", "in another letter case"],
    ["S\u0130:DEEJAY", "in Turkish upper case"],
    ["S\u0130:DEEJAY".toLowerCase(), "in Turkish upper case, then lower case elsewhere"],
    ["s\u0131:deejay", "in Turkish lower case"],
    ["si:dee\u001b[01;31m\u001b[Kjay", "in the colours of a terminal"],
    ["\\U00000073i:deejay", "with a long code"],
    ["user=si%3Adeejay&x", "percent-encoded"],
    ["user=si%253adeejay", "percent-encoded twice"],
    ["si\\u003adeejay and si\\u003Adeejay", "with an escaped colon"],
    ["si\\\\u003adeejay", "with a colon that was escaped twice"],
    ["si:dee\\u200bjay and si:dee\\udb40\\udc61jay", "with escaped invisible characters inside"],
    ["si&#58;deejay, si&#x3a;deejay, si&colon;deejay, si&amp;#58;deejay", "with a colon in HTML"],
    ["si\\:deejay", "with a colon that Markdown escaped"],
    ["\uFF53\uFF49\uFF1A\uFF44eejay and si\uFE55deejay", "in compatibility forms"],
    ["si:deejay[acme]", "in a membership id"],
    [
      "si:deejay-laptop si:deejay_1 si:deejay.log si:deejay\u3055\u3093",
      "before a character that is not a letter or digit of an id"
    ]
  ])("is removed from %j, %s", (text) => {
    for (const content of everywhere(text)) {
      expect(names(published(content), "si:deejay")).toBe(false)
      expect(published(content)).not.toMatch(/:dee\W*jay(?!2)/i)
    }
  })

  it("is removed from a file name, where an underscore replaces the colon", () => {
    for (const name of ["si:deejay.log", "si_deejay.log", "si/deejay", "my si\u200B deejay", "si%3Adeejay"]) {
      expect(published({ attachments: [{ name, content: "" }] })).not.toMatch(/si_+deejay/i)
    }
    expect(published({ message: "See /var/cache/si_deejay/player.log" })).toContain(
      "/var/cache/[reporter]/player"
    )
    expect(published({ attachments: [{ name: "si_deejay2.log", content: "" }] })).toContain(
      "`si_deejay2.log`"
    )
  })

  it("is removed from the request id and the pull request", () => {
    const draft = composeIssue({
      ...report({ pr: "https://si:123@host/si;123" }),
      reporter: Verified({ publicId: "si:123" }),
      requestId: "req.si_123.x"
    })
    expect(draft.body).toContain("- Request: `req._reporter_.x`")
    expect(draft.body).not.toMatch(/si[:_]123/)
  })

  it("does not appear when a longer handle is cut", () => {
    for (let before = 0; before < 40; before += 1) {
      const message = `${"x".repeat(before)} si:deejay2 `.repeat(4_000)
      for (const size of [fullSize, shortSize]) {
        const text = published({ message, attachments: [{ name: message.slice(0, 120), content: "" }] }, size)
        expect(names(text, "si:deejay")).toBe(false)
        expect(text).not.toMatch(/si_deejay(?!2)/)
      }
    }
  })
})

describe("An unverified reporter", () => {
  const given = {
    ...report({ pr: "https://host/c:jane" }),
    requestId: "req.si:deejay.x"
  }
  const forms = [
    "si:deejay",
    "c:jane",
    "actor_SI:DeeJay",
    "si:dee\u200Bjay",
    "user=si%3Adeejay&x",
    "line\\nsi:deejay",
    "si&#0000058;deejay",
    "\uFF53\uFF49\uFF1A\uFF44eejay"
  ]

  it.each([Unverified(), Unrecognised({ text: "later:si:deejay" })])(
    "is named nowhere in the issue of %j",
    (reporter) => {
      for (const form of forms)
        for (const content of everywhere(form))
          for (const size of [fullSize, shortSize]) {
            const { body, title } = composeIssue(
              { ...given, content: { ...given.content, ...content }, reporter },
              size
            )
            const issue = `${title}\n${body}`
            for (const id of ["si:deejay", "c:jane"]) expect(names(issue, id)).toBe(false)
            expect(issue).not.toMatch(/deejay|jane/i)
            expect(body).toMatch(/_reporter_|\[reporter\]/)
          }
    }
  )

  it("is distinguished from an anonymous reporter, whose text keeps the names of others", () => {
    const { body, title } = composeIssue({
      ...given,
      content: report({ message: "si:deejay and c:jane" }).content,
      reporter: Anonymous()
    })
    expect(title).toBe("[report] si:deejay and c:jane")
    expect(body).toContain("si:deejay and c:jane")
    expect(body).toContain("req.si:deejay.x")
  })
})

describe("An issue", () => {
  it("holds no credential that appears once invisible characters are removed", () => {
    for (const hidden of ["\u200B", "\u00AD", "\u0000", "\u{E0020}", "\\u200b"]) {
      const split = `${oat.slice(0, 9)}${hidden}${oat.slice(9)}`
      for (const content of everywhere(split)) expect(shows(published(content), oat)).toBe(false)
    }
  })

  it.each([
    [
      "Authorization:\u200B\u00A0\u00A0\u00A0\u00A0\u00A0\u00A0\u00A0\u00A0\u00A00123456789abcdef",
      "0123456789abcdef"
    ],
    ["Bearer\u0085abcdef0123456789", "abcdef0123456789"],
    ["Bearer\\u0020abcdef0123456789", "abcdef0123456789"],
    ["Authorization%3A%20Basic%20dXNlcjpwYXNz", "dXNlcjpwYXNz"],
    [`oat\\_${"a1B2".repeat(8)}`, "a1B2a1B2"],
    [`o\\u0061t_${"a1B2".repeat(8)}`, "a1B2a1B2"]
  ])("shows no credential of %j in its title or body", (text, secret) => {
    expect(composeIssue(report({ message: text })).title).not.toContain(secret)
    if (!text.includes("\u00A0")) expect(shows(published({ message: text }), secret)).toBe(false)
  })

  it("holds no credential that the safe characters of a file name would form", () => {
    const name = `oat ${"a1B2".repeat(8)}.log`
    expect(published({ attachments: [{ name, content: "" }] })).not.toContain("a1B2")
  })

  it("redacts a header that appears only in the JSON of the context", () => {
    const text = published({
      context: {
        "x-authorization": "0123456789abcdef0123",
        "Author\u200Bization": "opaque",
        authorization: ["Basic dXNlcjpwYXNz"]
      }
    })
    expect(text).not.toMatch(/0123456789abcdef0123|opaque|dXNlcjpwYXNz/)
  })

  it("keeps two keys that become equal", () => {
    const text = published({ context: { "a\u200B": 1, a: 2, "si:deejay": 3, "SI:deejay": 4 } })
    expect(text).toContain('{\n  "a": 1,\n  "a 2": 2,\n  "[reporter]": 3,\n  "[reporter] 2": 4\n}')
  })
})

describe("A published issue", () => {
  const invisibles = [
    "\u200B",
    "\u200D",
    "\u00AD",
    "\u2060",
    "\uFEFF",
    "\u202E",
    "\u{E0061}",
    "\u0000",
    "\u0007",
    "\u0080"
  ]
  const neighbour = FastCheck.oneof(
    FastCheck.constantFrom(
      "",
      " ",
      "\n",
      "\t",
      "\r\n",
      "\u2028",
      "x",
      "2",
      ":",
      "_",
      "-",
      ".",
      "[acme]",
      "\\n",
      "\\\\n",
      "\\",
      '\\"',
      '{"actor":"',
      "%",
      "%20",
      "&",
      "&amp;",
      "@",
      "#",
      "GH-",
      "report-",
      "[redacted]",
      "[reporter]",
      "`".repeat(70),
      "Bearer ",
      "authorization: ",
      oat
    ),
    FastCheck.fullUnicodeString({ maxLength: 12 })
  )
  /** The text with invisible characters anywhere; with random letter case on request. */
  const disguise = (text: string, anyCase: boolean) =>
    FastCheck.array(
      FastCheck.tuple(
        FastCheck.boolean(),
        FastCheck.option(FastCheck.constantFrom(...invisibles), { freq: 3 })
      ),
      { minLength: text.length, maxLength: text.length }
    ).map((choices) =>
      [...text]
        .map((letter, index) => {
          const [upper, hidden] = choices[index] ?? [false, null]
          return (anyCase && upper ? letter.toUpperCase() : letter) + (hidden ?? "")
        })
        .join("")
    )
  const id = FastCheck.constantFrom("si:deejay", "c:jane", "c:a-b_c", "si:reporter", "si:abc", "c:x--")
  const colon = FastCheck.constantFrom(
    ":",
    ":",
    "&#0000000058;",
    "&#x0000000003a;",
    "\\u{3a}",
    "%u003a",
    "&lrm;:&NoBreak;",
    "%3A",
    "%3a",
    "%253A",
    "\\u003a",
    "\\u003A",
    "\\\\u003a",
    "&#58;",
    "&#x3A;",
    "\uFF1A"
  )
  const digits = FastCheck.integer({ min: 0, max: 15 }).map((value) => value.toString(16))
  const hex = FastCheck.array(digits, { minLength: 32, maxLength: 32 }).map((all) => all.join(""))
  const secret = FastCheck.tuple(
    FastCheck.constantFrom("oat_9", "ort_A0-", "ask_0_", "stk-", "table-music-", "ghp_", "github_pat_"),
    hex
  ).map((parts) => parts.join(""))
  const sample = FastCheck.record({
    id,
    colon,
    secret,
    neighbours: FastCheck.array(neighbour, { minLength: 6, maxLength: 6 })
  }).chain(({ id, colon, secret, neighbours }) =>
    FastCheck.tuple(disguise(id, true), disguise(secret, false)).map(([name, split]) => {
      const [a = "", b = "", c = "", d = "", e = "", f = ""] = neighbours
      return { id, secret, text: `${a}${name.replace(":", colon)}${b}${c}${split}${d}${e}${name}${f}` }
    })
  )

  it("names no reporter and shows no credential, wherever they appeared", () => {
    FastCheck.assert(
      FastCheck.property(
        sample,
        FastCheck.nat(8),
        FastCheck.boolean(),
        ({ id, secret, text }, place, short) => {
          const content = everywhere(text)[place] ?? {}
          const { body, title } = composeIssue(
            { ...report(content), reporter: Verified({ publicId: id }) },
            short ? shortSize : fullSize
          )
          const issue = `${title}\n${body}`
          expect(names(issue, id)).toBe(false)
          expect(shows(issue, secret)).toBe(false)
          for (const [, name = ""] of body.matchAll(/^Attachment `(.*)`:$/gm))
            expect(name).not.toMatch(new RegExp(`(?<![a-z0-9])${id.replace(":", "_")}(?![a-z0-9])`, "i"))
          const [, , block] = /^Context:\n\n(`+)text\n([\s\S]*?)\n\1\n/m.exec(body) ?? []
          if (block !== undefined && !block.includes("[cut:"))
            JSON.parse(block, (key, value: unknown) => {
              for (const part of [key, String(value)]) {
                expect(names(part, id)).toBe(false)
                expect(shows(part, secret)).toBe(false)
              }
              return value
            })
        }
      ),
      { numRuns: 300 }
    )
  })

  it("does not change when it is cleaned again", () => {
    FastCheck.assert(
      FastCheck.property(sample, FastCheck.nat(8), ({ id, text }, place) => {
        const { body, title } = composeIssue({
          ...report(everywhere(text)[place] ?? {}),
          reporter: Verified({ publicId: id })
        })
        const [shown = ""] = readingsOf(`${title}\n${body}`)
        expect(redact(shown)).toBe(shown)
        expect(anonymise(shown, id)).toBe(shown)
      }),
      { numRuns: 300 }
    )
  })

  it("is composed in bounded time from hostile text", () => {
    const pieces = [
      "\u200B",
      "a\u200B",
      "\\",
      "\\u",
      "\\u003a",
      "%25",
      "%",
      "&amp;",
      "&#58;",
      "&#0",
      "&#x",
      "0",
      "\\u{0",
      "%u003a",
      "%ud83d",
      "c:abc",
      "c:",
      "c_",
      "c",
      "\uFF1A",
      "\uFDFA",
      "si:",
      "si:deeja",
      "si:deejay",
      "si_",
      "oat_",
      "oat_a\u200B",
      "bearer ",
      "authorization: ",
      "table-a-",
      "\uD800",
      "\r",
      "\u00E9"
    ]
    for (const piece of pieces) {
      const text = piece.repeat(Math.floor(50_000 / piece.length))
      for (const reporter of [report().reporter, Unverified()]) {
        const took = cpuMillisOf(() =>
          composeIssue({
            ...report({
              message: text.slice(0, 20_000),
              attachments: Array.from({ length: 5 }, () => ({ name: text.slice(0, 120), content: text })),
              context: { text: text.slice(0, 8_000) }
            }),
            reporter
          })
        )
        expect(took, JSON.stringify(piece)).toBeLessThan(3_000)
      }
    }
    const keys = Array.from({ length: 4_000 }, (_, index) => String.fromCodePoint(0xe0000 + index))
    const took = cpuMillisOf(() =>
      composeIssue(report({ context: Object.fromEntries(keys.map((key) => [key, 1])) }))
    )
    expect(took, "keys that become equal").toBeLessThan(1_000)
  })
})
