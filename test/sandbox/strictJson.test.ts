import { describe, expect, it } from "vitest"
import {
  canonical,
  isInteger64,
  JsonProblem,
  maxDepth,
  parseJson,
  plain
} from "../../sandbox/upstreams/StrictJson.ts"

const parse = (text: string) => parseJson(Buffer.from(text))
const read = (text: string) => plain(parse(text))
const nested = (levels: number, open: string, close: string) => open.repeat(levels) + close.repeat(levels)

describe("strict JSON", () => {
  it.each([
    "null",
    "true",
    " [1, -2.5, 0, 1e3, 1E-2]\r\n\t",
    '{"a":{"b":[]},"c":"d"}',
    '"\\u0041\\n\\/\\"\\\\ \\ud83d\\ude00 😀 ü"',
    '{"":0,"__proto__":{"x":1}}',
    "{}"
  ])("parses %s like JSON.parse", (text) => {
    expect(read(text)).toEqual(JSON.parse(text))
    expect(JSON.stringify(read(text))).toBe(JSON.stringify(JSON.parse(text)))
  })

  it.each([
    ["a duplicate key", '{"a":1,"a":1}'],
    ["a duplicate key inside an array inside an object", '{"x":[{"y":{"a":1,"b":2,"a":3}}]}'],
    ["a duplicate key spelled with an escape", '{"a":1,"\\u0061":2}'],
    ["trailing data", "{} {}"],
    ["a trailing word", "{}x"],
    ["a trailing comma in an object", '{"a":1,}'],
    ["a trailing comma in an array", "[1,]"],
    ["nothing", ""],
    ["white space alone", "  "],
    ["an unfinished object", '{"a":1'],
    ["an unfinished string", '"a'],
    ["a raw control character in a string", '"a\u0001"'],
    ["an unknown escape", '"\\x41"'],
    ["a short escape", '"\\u12"'],
    ["a lone leading surrogate", '"\\ud800"'],
    ["a lone trailing surrogate", '"\\udc00"'],
    ["two leading surrogates", '"\\ud800\\ud800"'],
    ["a number that overflows", "1e999"],
    ["a negative number that overflows", "[-1e999]"],
    ["NaN", "NaN"],
    ["Infinity", "-Infinity"],
    ["a leading zero", "01"],
    ["a leading plus", "+1"],
    ["a bare point", "1."],
    ["a single-quoted string", "'a'"],
    ["an unquoted key", "{a:1}"],
    ["a comment", "{}//"],
    ["a word that only begins well", "nulls"],
    ["a byte order mark", "\ufeff{}"],
    ["a no-break space", "\u00a0{}"]
  ])("refuses %s", (_, text) => {
    expect(() => parse(text)).toThrow(JsonProblem)
  })

  it.each([
    ["a stray continuation byte", [0x22, 0x80, 0x22]],
    ["an overlong form", [0x22, 0xc0, 0xaf, 0x22]],
    ["an encoded surrogate", [0x22, 0xed, 0xa0, 0x80, 0x22]],
    ["a cut sequence", [0x22, 0xe2, 0x82]]
  ])("refuses %s as invalid UTF-8", (_, bytes) => {
    expect(() => parseJson(Buffer.from(bytes))).toThrow("invalid UTF-8")
  })

  it("parses 128 levels and refuses 129", () => {
    expect(() => parse(nested(maxDepth, "[", "]"))).not.toThrow()
    expect(() => parse(nested(maxDepth + 1, "[", "]"))).toThrow("nested too deeply")
    expect(() => parse(`${'{"a":'.repeat(maxDepth)}1${"}".repeat(maxDepth)}`)).not.toThrow()
    expect(() => parse(`${'{"a":'.repeat(maxDepth + 1)}1${"}".repeat(maxDepth + 1)}`)).toThrow(JsonProblem)
    expect(() => parse("[".repeat(100_000))).toThrow("nested too deeply")
  })

  it("never quotes the content in a problem", () => {
    expect(() => parse('{"secret":1,"secret":2}')).toThrow(/^duplicate key at offset \d+$/)
  })

  it("keeps the last duplicate when configured so", () => {
    expect(plain(parseJson(Buffer.from('{"a":1,"a":2}'), { duplicateKeys: "last" }))).toEqual({ a: 2 })
  })

  it("has the same canonical text for equal content, for any key order and white space", () => {
    const text = canonical(parse('{"b":[1, {"z":"\\u0041","y":null}], "a":true}'))
    expect(text).toBe('{"a":true,"b":[1,{"y":null,"z":"A"}]}')
    expect(canonical(parse('{ "a" : true, "b" : [ 1,{"y":null,"z":"A"} ] }'))).toBe(text)
  })

  it("distinguishes integers from floats in canonical text", () => {
    const numbers = "[1,1.0,1e0,1.50,-0,0.1,1e15,1e16,1e300,18446744073709551615,18446744073709551616]"
    expect(canonical(parse(numbers))).toBe(
      "[1,1.0,1.0,1.5,-0.0,0.1,1000000000000000.0,1e16,1e300,18446744073709551615,1.8446744073709552e19]"
    )
  })

  it.each([
    ["0", true],
    ["-9223372036854775808", true],
    ["9223372036854775807", true],
    ["9223372036854775808", false],
    ["1.0", false],
    ["1e3", false],
    ['"1"', false]
  ])("detects whether %s is a 64-bit integer", (text, expected) => {
    expect(isInteger64(parse(text))).toBe(expected)
  })
})
