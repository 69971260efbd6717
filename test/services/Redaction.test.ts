/** What counts as a credential in a text or a JSON value, and what the search costs. */
import * as FastCheck from "effect/FastCheck"
import { describe, expect, it } from "vitest"
import { redact, redactedText, redactJson, redactReport } from "../../src/services/text/Redaction.ts"
import { cpuMillisOf } from "../world/CpuTime.ts"
import { secret } from "./text/HostileText.ts"

const glue = FastCheck.oneof(
  FastCheck.fullUnicodeString({ maxLength: 40 }),
  FastCheck.constantFrom(
    ...`||\n|\\n|\\"|{"token":"|https://example.test/?access_token=|%3D|'|\`|Bearer |stk-|oat_|authorization: `.split(
      "|"
    )
  )
)

/** Behind another header's name, that of a header is its value. */
const recognised = secret.filter(({ text }) => !/authorization/i.test(text))

const token = `oat_${"a1B2".repeat(10)}xyz`
const t = "a1B2".repeat(8)
const k = "0a".repeat(16)
/** What is between « and » is removed. */
const found: ReadonlyArray<string> = [
  `curl -H "Authorization: «Bearer ${token}»"`,
  "authorization: «basic dXNlcjpwYXNz»",
  "curl --basic --proxy-«basic dXNlcjpwYXNz»",
  "satisfy basic auth_«basic: dXNlcjpwYXNz»",
  "Authorization: «Token t1»",
  'Authorization: «Digest username=»"ana"',
  "authorization: «ApiKey k1»",
  "authorization: «DPoP eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcDEF123»",
  "curl -H 'Authorization: «GenieKey 123e4567-e89b-12d3-a456-426614174000»'",
  '{"authorization": ["«Basic short»"]}',
  "state=«Bearer+a1b2c3d4»&page=2",
  "AUTHORIZATION=«Bearer short»",
  `{"authorization":"«Bearer ${token}»"}`,
  `"{\\"Authorization\\": \\"«Bearer x.y.z»\\"}"`,
  "Authorization: «0123456789abcdef0123»",
  `https://api.example.test/?t=«${token}»&x=1`,
  `text\\n«${token}»`,
  `%22«${token}»%22`,
  `'«${token}»', "«${token}»"`,
  `key «table-musicclidaemon-${k}».`,
  `«stk-${k}»`,
  `«github_pat_${"A1".repeat(20)}_x» and «ghp_${"a1".repeat(18)}»`,
  `«ghs_${"12".repeat(10)}.eyJhbGciOi.abc-_def»`,
  `«oat_${"a".repeat(43)}»`,
  `«oat\\u{5f}${t}» «oat%u005f${t}»`,
  `«o&#8288;at&#0000000095;${t}» «oat&#9&#x35;;${t}» «oat%255f${t}»`,
  `«Bearer&nbsp;${t}» &quot;Authorization&quot;: &quot;«${t}»&quot;`,
  `«oat_${t}%61B2a1B2»`,
  // Half of a pair, alone and around another code.
  `«oat\\ud83d_${t}» «oat\\ud834%f0%9d%85%b3\\udd73_${t}»`,
  // Markdown escapes of the beginning of a code.
  `«oat_a1B2\\%62a1B2\\&#110;${t}»`,
  // Names and values of headers in other shapes than a line.
  `["Authorization", '«Digest username=»"ana", response="6629fae4"']`,
  "authorization|«Negotiate dXNlcjpwYXNz»|",
  "Authorization  «Basic dXNlcjpwYXNz0»",
  `Authorization: «Bearer "a1b2c3d4»"`,
  // Something invisible inside, and beside it.
  `a \u200Bb «oat_\u200B\u200B${t}», c\u200B`,
  // Behind a letter or digit it could be words; once the key before it is gone, it no longer is behind one.
  `«stk-${k}»«oat_words-that-could-be»`
]

const kept: ReadonlyArray<string> = [
  "I had an oat_meal and a cat_nap, then ask_me.",
  "float_conversion_function and concat_all_the_strings_of_a_list are names",
  "the bearer of bad news",
  "the bearer 12 of 40",
  "Bearer authentication.",
  "Bearer authentication-failed with 403",
  "authorization: failed, and authorization = denied by policy",
  "Authorization: required for all-of-the-calls-of-this-version",
  "authorization=granted trace_id=0af7651916cd43dd8448eb211c80319c",
  "the authorization basic to all this, and authorization, tokens and bearers",
  "a &copy; b &unknown; c &amp; d",
  "OAT_UPPERCASEISNOTATOKENATALL123456",
  'allowHeaders: ["Authorization", "X-Requested-With", "Content-Type"]',
  "['Authorization', 'X-Requested-With'] and 'authorization', 'x-correlation-id-v2'",
  'headers: ["authorization", "x-amz-content-sha256"]',
  'columns "authorization", "idempotency_key_v2"',
  "Authorization | src/http2/authorization/handlers.ts",
  "Authorization > settings/oauth2/applications1",
  "| Authorization | Token endpoint | Basic auth |",
  "authorization|550e8400-e29b-41d4-a716-446655440000|ok",
  "a table-top game, table-musicclidaemon-1234, stk-1234, ghp_short",
  "github.com/harbor/music#12"
]

describe("Redaction of a text", () => {
  it("removes every credential from any text, and changes nothing when it is repeated", () => {
    FastCheck.assert(
      FastCheck.property(
        FastCheck.array(FastCheck.tuple(glue, recognised), { maxLength: 4 }),
        glue,
        (parts, end) => {
          const clean = redact(parts.map(([before, { text }]) => `${before} ${text}`).join("") + end)
          for (const [, { core }] of parts) expect(clean).not.toContain(core)
          expect(redact(clean)).toBe(clean)
        }
      ),
      { numRuns: 400 }
    )
  })

  it.each(found)("removes what is marked: %s", (row) => {
    expect(redact(row.replace(/[«»]/g, ""))).toBe(row.replace(/«[^»]*»/g, redactedText))
  })

  it.each(kept)("keeps ordinary words: %s", (text) => {
    expect(redact(text)).toBe(text)
  })

  it("finds one beside codes that end each other, however many", () => {
    for (const code of ["%3", "\\u003", "&#5"])
      expect(redact(`${token} ${code.repeat(50_000)}1`)).toBe(`${redactedText} ${code.repeat(50_000)}1`)
  })
})

describe("Redaction of JSON", () => {
  /** Headers that are listed with their values are removed, not words beside the name. */
  const rows: ReadonlyArray<string> = [
    `{"«${token}»":1,"«${token}2» 2":["«${token}»",{"deep":"x «${token}»"}]}`,
    '{"Authorization":"«Digest abc»","Proxy-Authorization":"«any»","other":"kept","Author%69zation":"«opaque»"}',
    '{"none":null,"yes":true,"n":1.5}',
    '{"__proto__":{"a":1}}',
    '["Authorization","«Basic dXNlcjpwYXNz»","Accept","text/html"]',
    '{"name":"authorization","value":"«a1b2c3d4a1b2c3d4»"}',
    '{"key":"Author&#105;zation","value":"«Basic dXNlcjpwYXNz»"}',
    '{"name":"authorization","value":"step 3 of 4"}',
    '{"name":"request.headers.authorization","value":"«a1b2c3d4a1b2c3d4»"}',
    `["login","after «${token}» it ends"]`,
    '{"authorization":{"key":"Authorization","value":"«hunter2-secret»"}}',
    `{"Author\u200Bization":"«opaque»","«oat_\u200B${t}x»":1}`,
    '["authorization","profile"]',
    '["Authorization","X-Requested-With"]',
    '["login","authorization","550e8400-e29b-41d4-a716-446655440000"]'
  ]
  it.each(rows)("removes what is marked: %s", (row) => {
    // The second of two equal keys gets a number.
    const given: unknown = JSON.parse(row.replace("» 2", "»").replace(/[«»]/g, ""))
    expect(redactJson(given)).toEqual(JSON.parse(row.replace(/«[^»]*»/g, redactedText)))
  })

  it("covers all parts of a report", () => {
    const attachments = [{ name: `${token}.log`, content: `a ${token} b` }]
    const context = { token, nested: [token] }
    const clean = redactReport({ message: `It says ${token}`, pr: token, attachments, context })
    expect(JSON.stringify(clean)).not.toContain(token)
    expect(clean.attachments[0]?.content).toBe(`a ${redactedText} b`)
  })
})

it("Redaction costs little for text made to be slow", () => {
  const pieces =
    "a|1|-|_|basic-a|basic a|xoat_a_|oat_|bearer |authorization: |table-a-|Bearer a.|gh|oat_\u200B|\\u006fat_|\\"
  const took = cpuMillisOf(() => {
    // The beginning keeps the search from passing over a plain text.
    for (const piece of pieces.split("|"))
      redact(`bearer ${piece.repeat(Math.floor(200_000 / piece.length))}`)
  })
  expect(took).toBeLessThan(2_000)
})

it("A text in which each replacement completes another credential is replaced as a whole, at little cost", () => {
  // A written `\\e` takes the bracket of the replacement with it: `edacted` then belongs to the token before.
  const chained = (links: number) => `${"oat_AAAAAAAAA\\e".repeat(links)}${token}`
  expect(redact(`kept ${chained(2)}`)).toBe(`kept ${redactedText}]]`)
  let clean = ""
  const took = cpuMillisOf(() => {
    clean = redact(chained(6_500))
  })
  expect(clean).toBe(redactedText)
  expect(took).toBeLessThan(1_000)
})

it("Redaction costs little for values inside many named headers", () => {
  const inside = (value: unknown, depth: number): unknown =>
    depth === 0 ? value : ["x-testing-key", inside(value, depth - 1)]
  const values = Array.from({ length: 14_000 }, () => "a")
  const took = cpuMillisOf(() => redactJson(inside(values, 60)))
  expect(took).toBeLessThan(1_000)
})
