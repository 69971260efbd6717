import * as FastCheck from "effect/FastCheck"
import { describe, expect, it } from "vitest"
import { redact, redactedText, redactJson, redactReport } from "../../src/services/Redaction.ts"
import { cpuMillisOf } from "../support/CpuTime.ts"

const letters = (alphabet: string, minLength: number, maxLength: number) =>
  FastCheck.array(FastCheck.constantFrom(...alphabet), { minLength, maxLength }).map((all) => all.join(""))
const base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
const word = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
const hex = "0123456789abcdef"

const familyToken = FastCheck.tuple(
  FastCheck.constantFrom("oat_", "ort_", "oac_", "obo_", "ask_", "cat_", "sat_", "rft_", "sup_"),
  // A digit, so that the token is never just words.
  letters(base64url, 14, 21),
  FastCheck.constantFrom(..."0123456789"),
  letters(base64url, 14, 21)
).map((parts) => parts.join(""))
const siliconKey = letters(hex, 32, 32).map((body) => `stk-${body}`)
const tableKey = FastCheck.tuple(
  letters("abcdefghijklmnopqrstuvwxyz0123456789", 1, 50),
  letters(hex, 32, 32)
).map(([name, body]) => `table-${name}-${body}`)
const trackerToken = FastCheck.tuple(
  FastCheck.constantFrom("github_pat_", "ghp_", "gho_", "ghs_", "ghu_", "ghr_"),
  letters(word, 30, 82)
).map((parts) => parts.join(""))
const bearerHeader = FastCheck.tuple(
  FastCheck.constantFrom("Bearer ", "bearer ", "BEARER  ", "Bearer%20", "Authorization: Bearer "),
  letters(`${base64url}.~+/`, 6, 30),
  FastCheck.constantFrom(..."0123456789"),
  letters(`${base64url}=`, 6, 30)
).map((parts) => parts.join(""))
const credential = FastCheck.oneof(familyToken, siliconKey, tableKey, trackerToken, bearerHeader)

const glue = FastCheck.oneof(
  FastCheck.fullUnicodeString({ maxLength: 40 }),
  FastCheck.constantFrom(
    "",
    " ",
    "\n",
    "\\n",
    '\\"',
    '{"token":"',
    "https://example.test/?access_token=",
    "%3D",
    "'",
    "`",
    "Bearer ",
    "stk-",
    "oat_",
    "authorization: "
  )
)

describe("Redaction", () => {
  it("removes every credential from any text", () => {
    FastCheck.assert(
      FastCheck.property(
        FastCheck.array(FastCheck.tuple(glue, credential), { maxLength: 4 }),
        glue,
        (parts, end) => {
          const text = parts.flat().join("") + end
          const clean = redact(text)
          for (const [, token] of parts) expect(clean).not.toContain(token)
        }
      ),
      { numRuns: 800 }
    )
  })

  it("is idempotent", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.array(FastCheck.oneof(glue, credential), { maxLength: 8 }), (parts) => {
        const clean = redact(parts.join(""))
        expect(redact(clean)).toBe(clean)
      }),
      { numRuns: 800 }
    )
  })

  const token = `oat_${"a1B2".repeat(10)}xyz`
  it.each([
    [`curl -H "Authorization: Bearer ${token}"`, `curl -H "Authorization: ${redactedText}"`],
    [`authorization: basic dXNlcjpwYXNz`, `authorization: ${redactedText}`],
    ["Authorization: Token t1", `Authorization: ${redactedText}`],
    ['Authorization: Digest username="ana"', `Authorization: ${redactedText}"ana"`],
    ["authorization: ApiKey k1", `authorization: ${redactedText}`],
    ['{"authorization": ["Basic short"]}', `{"authorization": ["${redactedText}"]}`],
    ["state=Bearer+a1b2c3d4&page=2", `state=${redactedText}&page=2`],
    [`AUTHORIZATION=Bearer short`, `AUTHORIZATION=${redactedText}`],
    [`{"authorization":"Bearer ${token}"}`, `{"authorization":"${redactedText}"}`],
    [`"{\\"Authorization\\": \\"Bearer x.y.z\\"}"`, `"{\\"Authorization\\": \\"${redactedText}\\"}"`],
    [`Authorization: 0123456789abcdef0123`, `Authorization: ${redactedText}`],
    [`https://api.example.test/?t=${token}&x=1`, `https://api.example.test/?t=${redactedText}&x=1`],
    [`text\\n${token}`, `text\\n${redactedText}`],
    [`%22${token}%22`, `%22${redactedText}%22`],
    [`'${token}', "${token}"`, `'${redactedText}', "${redactedText}"`],
    [`key table-musicbackend-${"0a".repeat(16)}.`, `key ${redactedText}.`],
    [`stk-${"0a".repeat(16)}`, redactedText],
    [`github_pat_${"A1".repeat(20)}_x and ghp_${"a1".repeat(18)}`, `${redactedText} and ${redactedText}`],
    [`ghs_${"12".repeat(10)}.eyJhbGciOi.abc-_def`, redactedText],
    [`oat_${"a".repeat(43)}`, redactedText],
    [`o&NoBreak;at&#0000000095;${"a1B2".repeat(8)}`, redactedText],
    [`oat&UnderBar;${"a1B2".repeat(8)}`, redactedText],
    [`oat\\u{5f}${"a1B2".repeat(8)} oat%u005f${"a1B2".repeat(8)}`, `${redactedText} ${redactedText}`],
    [`oat_${"a1B2".repeat(8)}%61B2a1B2`, redactedText],
    // References by name: ASCII, forms of ASCII, spaces; inside each other; with and without a semicolon.
    [`Bearer&Tab;${"a1B2".repeat(4)} Bearer&ensp;${"a1B2".repeat(4)}`, `${redactedText} ${redactedText}`],
    [`Authorization&equals;a1B2a1B2&sol;a1B2&period;a1B2&plus;`, `Authorization&equals;${redactedText}`],
    [`&oopf;at_${"a1B2".repeat(8)} o&afr;t_${"a1B2".repeat(8)}`, `${redactedText} ${redactedText}`],
    [
      `table-cli&dd;aemon-${"0a".repeat(16)} oat_&IJlig;&fflig;${"a1B2".repeat(8)}`,
      `${redactedText} ${redactedText}`
    ],
    [
      `oat&#9&#x35;;${"a1B2".repeat(8)} oat&#95${"a1B2".repeat(8).replace("a", "_")}`,
      `${redactedText} ${redactedText}`
    ],
    [`oat&#37;5Cu005f${"a1B2".repeat(8)}`, redactedText],
    [`oat_a1B2%u005cud804\\udcbd${"a1B2".repeat(8)}`, redactedText],
    [`oat_\u0132a1B2\u0133${"a1B2".repeat(8)}`, redactedText],
    // A backslash belongs to an escape whose letter is encoded.
    ...["%78", "&#120;", "&#x78;", "\\u0078", "&#92u0078"].map((letter): [string, string] => [
      `oat\\${letter}5f${"a1B2".repeat(8)}`,
      redactedText
    ]),
    [`oat\\&#x75;005f${"a1B2".repeat(8)}`, redactedText],
    // Markdown escapes of the beginning of a code.
    [`oat_a1B2\\%62a1B2\\&#110;${"a1B2".repeat(8)}`, redactedText],
    // Names and values of headers in other shapes than a line.
    [`["Authorization","Basic dXNlcjpwYXNz"]`, `["Authorization","${redactedText}"]`],
    [
      `{"name": "Authorization", "value": "Basic dXNlcjpwYXNz"}`,
      `{"name": "Authorization", "value": "${redactedText}"}`
    ],
    [`'authorization' => 'Basic dXNlcjpwYXNz'`, `'authorization' => '${redactedText}'`],
    [
      `{"name": "Authorization", "value": "a1b2c3d4a1b2c3d4"}`,
      `{"name": "Authorization", "value": "${redactedText}"}`
    ],
    [
      `["Authorization", 'Digest username="ana", response="6629fae4"']`,
      `["Authorization", '${redactedText}"ana", response="6629fae4"']`
    ],
    ["authorization|Negotiate dXNlcjpwYXNz|", `authorization|${redactedText}|`],
    ["Authorization  Basic dXNlcjpwYXNz0", `Authorization  ${redactedText}`],
    [`Authorization: Bearer "a1b2c3d4"`, `Authorization: ${redactedText}"`],
    // Behind a letter or digit it could be words; once the key before it is gone, it no longer is behind one.
    [`stk-${"0a".repeat(16)}oat_words-that-could-be`, redactedText.repeat(2)]
  ])("finds the credential in %s", (text, clean) => {
    expect(redact(text)).toBe(clean)
  })

  it.each([
    "I had an oat_meal and a cat_nap, then ask_me.",
    "float_conversion_function and concat_all_the_strings_of_a_list are names",
    "the bearer of bad news",
    "the bearer 12 of 40",
    "Bearer authentication.",
    "Bearer authentication-failed with 403",
    "authorization: failed, and authorization = denied by policy",
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
    "a table-top game, table-musicbackend-1234, stk-1234, ghp_short",
    "github.com/harbor/music#12"
  ])("keeps ordinary words: %s", (text) => {
    expect(redact(text)).toBe(text)
  })

  it.each([
    "oat&lowbar0123456789abcdefghij",
    "oat&#95x0123456789abcdefghij",
    "oat&#92%785f0123456789abcdefghij"
  ])("finds the credential in %s, however deep other text is encoded", (hidden) => {
    for (let depth = 0; depth < 16; depth += 1) {
      const decoy = `&#37;26${"#37;26".repeat(depth)}#37;41`
      expect(redact(`${decoy} ${hidden}`)).toBe(`${decoy} ${redactedText}`)
    }
  })

  it("finds a credential in five encodings inside each other, in any order", () => {
    const code = (letter: string, length = 0) => letter.charCodeAt(0).toString(16).padStart(length, "0")
    const encoders: ReadonlyArray<(letter: string) => string> = [
      (letter) => `%${code(letter, 2)}`,
      (letter) => `%u${code(letter, 4)}`,
      (letter) => `&#${letter.charCodeAt(0)};`,
      (letter) => `&#x${code(letter)};`,
      (letter) => `\\u${code(letter, 4)}`,
      (letter) => `\\x${code(letter, 2)}`,
      (letter) => `\\u{${code(letter)}}`
    ]
    const layer = FastCheck.record({
      encode: FastCheck.constantFrom(...encoders),
      // Which characters are encoded: few, so that the text stays short.
      chosen: FastCheck.array(FastCheck.nat(5), { minLength: 7, maxLength: 40 })
    })
    interface Layer {
      readonly encode: (letter: string) => string
      readonly chosen: ReadonlyArray<number>
    }
    const nest = (text: string, layers: ReadonlyArray<Layer>): string =>
      layers.reduce(
        (inner, { chosen, encode }) =>
          Array.from(inner)
            .map((letter, at) => (chosen[at % chosen.length] === 0 ? encode(letter) : letter))
            .join(""),
        text
      )
    FastCheck.assert(
      FastCheck.property(
        FastCheck.array(layer, { minLength: 1, maxLength: 5 }),
        FastCheck.array(layer, { maxLength: 8 }),
        (layers, decoyLayers) => {
          const decoy = nest("%41&#37;41", decoyLayers)
          const clean = redact(`${decoy} ${nest("oat_K3jd82Hs01QpLx77", layers)} end`)
          expect(clean).toBe(`${decoy} ${redactedText} end`)
        }
      ),
      { numRuns: 200, seed: 1 }
    )
  })

  it("is fast on text made to be slow", () => {
    const pieces = [
      "xoat_a_",
      "oat_",
      "bearer ",
      "authorization: ",
      "table-a-",
      "Bearer a.",
      "gh",
      "oat_\u200B",
      "\\u006fat_",
      "\\"
    ]
    const took = cpuMillisOf(() => {
      for (const piece of pieces) redact(piece.repeat(Math.floor(400_000 / piece.length)))
    })
    expect(took).toBeLessThan(3_000)
  })

  it("takes no longer for many short texts than for a long one of the same size", () => {
    const least = (run: () => void) => Math.min(...Array.from({ length: 5 }, () => cpuMillisOf(run)))
    for (const part of ["\\", "&", "%41", "\u00e9", "\\u0041", "&#65;", "[m", "oat_", "Basic "]) {
      const text = part.repeat(Math.ceil(16 / part.length))
      const texts = Array.from({ length: 12_000 }, () => text)
      const long = least(() => void redactJson([texts.join("")]))
      expect(
        least(() => void redactJson(texts)),
        part
      ).toBeLessThan(5 * Math.max(long, 20))
    }
  })

  it("takes no longer for many values of a header with a long name than for as many texts", () => {
    const least = (run: () => void) => Math.min(...Array.from({ length: 3 }, () => cpuMillisOf(run)))
    const name = `${"a".repeat(24_000)}_testing_key`
    const values = Array.from({ length: 6_000 }, () => "x")
    const plain = least(() => void redactJson([name.slice(1, -1), values]))
    for (const value of [[name, values], { [name]: values }, { name, value: values }])
      expect(least(() => void redactJson(value))).toBeLessThan(5 * Math.max(plain, 20))
    const key = "Abcdefghijklmnopqrstuvwxyz012345"
    expect(redactJson({ [name]: ["x", key] })).toEqual({ [name]: ["x", redactedText] })
  })

  it("reads codes that end each other, however many", () => {
    for (const [code, count] of [
      ["%3", 50_000],
      ["\\u003", 50_000],
      ["&#5", 50_000]
    ] as const)
      expect(redact(`${token} ${code.repeat(count)}1`)).toBe(`${redactedText} ${code.repeat(count)}1`)
    expect(redact(`oat%${"%3".repeat(9_999)}5F${token.slice(4)}`)).not.toContain(token.slice(4))
  })

  it("covers every string and key of a JSON value, and keeps all other values", () => {
    expect(
      redactJson({
        [token]: 1,
        [`${token}2`]: [token, { deep: `x ${token}` }],
        headers: { Authorization: "Digest abc", "Proxy-Authorization": "any", other: "kept" },
        none: null,
        yes: true,
        n: 1.5
      })
    ).toEqual({
      [redactedText]: 1,
      [`${redactedText} 2`]: [redactedText, { deep: `x ${redactedText}` }],
      headers: { Authorization: redactedText, "Proxy-Authorization": redactedText, other: "kept" },
      none: null,
      yes: true,
      n: 1.5
    })
    expect(redactJson(JSON.parse('{"__proto__":{"a":1}}'))).toEqual(JSON.parse('{"__proto__":{"a":1}}'))
  })

  it("covers headers that are listed with their values, not words beside the name", () => {
    const value = "Basic dXNlcjpwYXNz"
    expect(
      redactJson([
        ["Authorization", value, "Accept", "text/html"],
        { name: "authorization", value: "a1b2c3d4a1b2c3d4" },
        { name: "authorization", value: "step 3 of 4" },
        { key: "Author\u0026#105;zation", value },
        { "Author%69zation": "opaque" },
        ["authorization", "profile"],
        ["Authorization", "X-Requested-With"],
        ["login", "authorization", "550e8400-e29b-41d4-a716-446655440000"]
      ])
    ).toEqual([
      ["Authorization", redactedText, "Accept", "text/html"],
      { name: "authorization", value: redactedText },
      { name: "authorization", value: "step 3 of 4" },
      { key: "Author&#105;zation", value: redactedText },
      { "Author%69zation": redactedText },
      ["authorization", "profile"],
      ["Authorization", "X-Requested-With"],
      ["login", "authorization", "550e8400-e29b-41d4-a716-446655440000"]
    ])
  })

  it("covers all parts of a report", () => {
    const clean = redactReport({
      message: `It says ${token}`,
      pr: null,
      attachments: [{ name: `${token}.log`, content: `a ${token} b` }],
      context: { token, nested: [token] }
    })
    expect(JSON.stringify(clean)).not.toContain(token)
    expect(clean.attachments[0]?.content).toBe(`a ${redactedText} b`)
  })

  it.each(["\u200B", "\u00AD", "\u2060", "\uFEFF", "\u{E0020}", "\u0000"])(
    "finds a credential with %j inside, and keeps all other text unchanged",
    (hidden) => {
      const split = `oat_${hidden.repeat(3)}${"a1B2".repeat(8)}`
      expect(redact(`a ${hidden}b ${split}, c${hidden}`)).toBe(`a ${hidden}b ${redactedText}, c${hidden}`)
      expect(redactJson({ [`${split}x`]: [split], [`Author${hidden}ization`]: "opaque" })).toEqual({
        [redactedText]: [redactedText],
        [`Author${hidden}ization`]: redactedText
      })
    }
  )
})
