/** What counts as a credential where programs write it and people paste it, and that all other text stays. */
import { FastCheck } from "effect"
import { describe, expect, it } from "vitest"
import { redact, redactedText, redactObject, redactReport } from "../../src/services/text/Redaction.ts"

const base64 = (text: string) => Buffer.from(text).toString("base64")
const token = `oat_${"a1B2".repeat(10)}xyz`
const t = "a1B2".repeat(8)
const k = "0a".repeat(16)

/** A header's value behind its name. */
const assigned = String.raw`> HEADER: «»
curl -sS -H 'HEADER: «»' https://example.test/
HEADER=«»
<header name="HEADER" value="«»"/>
<name>HEADER</name><value>«»</value>
{"name":"HEADER","value":"«»"}
{"Name":"HEADER","Value":"«»"}
{ "NAME": "HEADER", "VALUE": "«»" }
{"k":"HEADER","v":"«»"}
{"key":"HEADER","values":["«»"]}
{"header":"HEADER","content":"«»"}
{"headers":{"HEADER":"«»"}}
{"HEADER":{"value":"«»"}}
"{\"HEADER\":{\"value\":\"«»\"}}"
{'HEADER': '«»'}
{"HEADER"=>"«»"}
    [HEADER] => «»
  ["HEADER"]=> string(32) "«»"
map[Accept:[*/*] HEADER:[«»]]
{name: HEADER, value: «»}`.split("\n")
/** Beside its name, where another name could be. */
const listed = `(b'HEADER', b'«»')
<tr><td>HEADER</td> <td>«»</td></tr>
| HEADER | «» |
["HEADER","«»"]`.split("\n")

const authorization =
  "Authorization AUTHORIZATION authorization HTTP_AUTHORIZATION Proxy-Authorization AUTHOR\u0130ZAT\u0130ON author\u0131zat\u0131on".split(
    " "
  )
const keyNames = "X-Testing-Environment-Key HTTP_X_TESTING_ENVIRONMENT_KEY iam_test_key testing_key".split(
  " "
)
const random = [`Bearer ${token}`, `Basic ${base64("music:secret")}`, "Negotiate dXNlcjpwYXNz0", token]
const anyValue = [
  ...["Bearer short", "basic dXNlcjpwYXNz", "Token t1", "ApiKey k1", "0123456789abcdef0123"],
  ...["DPoP eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcDEF123", "GenieKey 123e4567-e89b-12d3-a456-426614174000"]
]
const headerRows = (
  shapes: ReadonlyArray<string>,
  names: ReadonlyArray<string>,
  values: ReadonlyArray<string>
) =>
  shapes.flatMap((shape) =>
    names.flatMap((name) => values.map((value) => shape.replace("HEADER", name).replace("«»", `«${value}»`)))
  )
const headers = [
  ...headerRows([...assigned, ...listed], authorization, random),
  ...headerRows([...assigned, ...listed], keyNames, [k, token]),
  ...headerRows(assigned, authorization, anyValue)
]

/** What is between « and » is removed. */
const found: ReadonlyArray<string> = [
  `https://api.example.test/?t=«${token}»&x=1`,
  `text\\n«${token}», %22«${token}»%22, '«${token}»', "«${token}»"`,
  `«stk-${k}», key «table-musicclidaemon-${k}».`,
  `«github_pat_${"A1".repeat(20)}_x», «ghp_${"a1".repeat(18)}», «ghs_${"12".repeat(10)}.eyJhbGciOi.abc-_def»`,
  `«oat_${"a".repeat(43)}»`,
  "state=«Bearer+a1b2c3d4»&page=2",
  // A user and a password.
  `sent «Basic ${base64(`music:${token}`)}» and «Basic ${base64(`:${token}`)}»`,
  "curl --basic --proxy-«basic dXNlcjpwYXNz»",
  "satisfy basic auth_«basic: dXNlcjpwYXNz»",
  // Headers of other forms.
  'Authorization: «Digest username=»"ana"',
  `["Authorization", '«Digest username=»"ana", response="6629fae4"']`,
  "Authorization  «Basic dXNlcjpwYXNz0»",
  `Authorization: «Bearer "a1b2c3d4»"`,
  // Encodings of a part.
  `«oat\\u{5f}${t}» «oat%u005f${t}»`,
  `«o&#8288;at&#0000000095;${t}» «oat&#9&#x35;;${t}» «oat%255f${t}»`,
  `«Bearer&nbsp;${t}» &quot;Authorization&quot;: &quot;«${t}»&quot;`,
  `«oat_${t}%61B2a1B2»`,
  // Half of a pair, alone and around another code.
  `«oat\\ud83d_${t}» «oat\\ud834%f0%9d%85%b3\\udd73_${t}»`,
  // Markdown escapes of the beginning of a code.
  `«oat_a1B2\\%62a1B2\\&#110;${t}»`,
  // Something invisible inside, and beside it.
  `a \u200Bb «oat_\u200B\u200B${t}», c\u200B`,
  // Colours, a link, titles of windows.
  `app.log:\u001b[01;31m\u001b[K«oat_\u001b[m\u001b[K${t}»\u001b[m`,
  `app.log:[01;31m[K«oat_[m[K${t}»`,
  `\u001b]8;;https://example.test/?t=«${token}»\u001b\\here\u001b]8;;\u001b\\`,
  `\u001b]0;«${token}»\u0007$ make`,
  `«oat_${t.slice(0, 4)}\u001b]8;;\u001b\\\\\\u{5c}u0074${t}»`,
  `«\u001b]0;%6fat_${t}\u0007»$ make`,
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
  "WARN  Basic authentication failed for the user",
  "basic operations: 12, basic options: 3",
  "a &copy; b &unknown; c &amp; d",
  "100%25 done & more \u2013 caf\u00e9 \u6f22\u5b57",
  "[authorization] ok, status[0] = 200, array[m] and array[K]",
  "C:\\new\\table\\x64\\update\\release\\notes",
  "OAT_UPPERCASEISNOTATOKENATALL123456",
  'allowHeaders: ["Authorization", "X-Requested-With", "Content-Type"]',
  "['Authorization', 'X-Requested-With'] and 'authorization', 'x-correlation-id-v2'",
  'headers: ["authorization", "x-amz-content-sha256"]',
  '{"level":"info","type":"authorization","id":"550e8400-e29b-41d4-a716-446655440000"}',
  'columns "authorization", "idempotency_key_v2"',
  "\tat Object.handle (/srv/app/src/http2/authorization/handlers.ts:12:7)",
  "Authorization | src/http2/authorization/handlers.ts",
  "Authorization > settings/oauth2/applications1",
  "| Authorization | Token endpoint | Basic auth |",
  "authorization|550e8400-e29b-41d4-a716-446655440000|ok",
  "name: authorization, value: denied",
  "a table-top game, table-musicclidaemon-1234, stk-1234, ghp_short",
  "github.com/harbor/music#12"
]

const given = (row: string) => row.replace(/[«»]/g, "")
const clean = (row: string) => row.replace(/«[^»]*»/g, redactedText)
const isJson = (row: string) => /^(?:[{[] ?"|"\{)/.test(row) && !row.includes("=>")

describe("Redaction of a text", () => {
  it.each([...found, ...kept])("removes what is marked, and nothing else: %s", (row) => {
    expect(redact(given(row))).toBe(clean(row))
  })

  it("removes a header's value in any shape, alone and from JSON", () => {
    for (const row of headers) {
      expect(redact(given(row))).toBe(clean(row))
      if (isJson(row))
        expect(redactObject({ row: JSON.parse(given(row)) }), row).toEqual({ row: JSON.parse(clean(row)) })
    }
  })

  it("removes it from a log, and keeps all other lines", () => {
    const marked = FastCheck.oneof(FastCheck.constantFrom(...found), FastCheck.constantFrom(...headers))
    const line = FastCheck.oneof(marked, FastCheck.constantFrom(...kept))
    FastCheck.assert(
      FastCheck.property(FastCheck.array(line, { minLength: 2, maxLength: 6 }), (lines) => {
        const rows = lines.map((one, at) => `${at} ${one}`).join("\n")
        expect(redact(given(rows))).toBe(clean(rows))
      }),
      { numRuns: 500 }
    )
  })

  it("finds one beside codes that end each other, however many", () => {
    for (const code of ["%3", "\\u003", "&#5"])
      expect(redact(`${token} ${code.repeat(50_000)}1`)).toBe(`${redactedText} ${code.repeat(50_000)}1`)
  })
})

describe("Redaction of JSON", () => {
  /** Headers that are listed with their values are removed, not words beside the name. */
  const rows: ReadonlyArray<string> = [
    `{"«${token}»":1,"other":["«${token}»",{"deep":"x «${token}»"}]}`,
    '{"Authorization":"«Digest abc»","Proxy-Authorization":"«any»","other":"kept","Author%69zation":"«opaque»"}',
    '{"authorization":["«Basic short»"],"none":null,"yes":true,"n":1.5}',
    '{"authorization":{"value":"«opaque»"},"Authorization":["«other»"]}',
    '{"authorization":["«a»",["«Token abc123»"],{"type":"«x»","value":"«opaque»","n":1}],"X-Authorization ":"«any»"}',
    '{"__proto__":{"a":1}}',
    '["Authorization","«Basic dXNlcjpwYXNz»","Accept","text/html"]',
    '{"key":"Author&#105;zation","value":"«Basic dXNlcjpwYXNz»"}',
    '{"name":"authorization","value":"step 3 of 4"}',
    '{"name":"request.headers.authorization","value":"«a1b2c3d4a1b2c3d4»"}',
    `["login","after «${token}» it ends"]`,
    `{"Author\u200Bization":"«opaque»","«oat_\u200B${t}x»":1}`,
    '["authorization","profile"]',
    '["Authorization","X-Requested-With"]',
    '["login","authorization","550e8400-e29b-41d4-a716-446655440000"]'
  ]
  it.each(rows)("removes what is marked: %s", (row) => {
    expect(redactObject({ row: JSON.parse(given(row)) })).toEqual({ row: JSON.parse(clean(row)) })
  })

  it("covers all parts of a report", () => {
    const attachments = [{ name: `${token}.log`, content: `a ${token} b` }]
    const context = { token, nested: [token] }
    const report = redactReport({ message: `It says ${token}`, pr: token, attachments, context })
    expect(JSON.stringify(report)).not.toContain(token)
    expect(report.attachments[0]?.content).toBe(`a ${redactedText} b`)
  })
})
