import { describe, expect, it } from "@effect/vitest"
import * as Either from "effect/Either"
import { parseJson } from "../../../src/http/body/StrictJson.ts"
import { nestingLimit } from "../../../src/schema/BodyLimits.ts"
import { cpuMillisOf } from "../../support/CpuTime.ts"

const bytes = (text: string) => new TextEncoder().encode(text)
const problem = (input: string | Uint8Array) =>
  Either.match(parseJson(typeof input === "string" ? bytes(input) : input), {
    onLeft: (text) => text,
    onRight: () => undefined
  })
const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth)

describe("Strict JSON", () => {
  it("accepts valid JSON, with brackets and quotes inside strings", () => {
    const text = `{"a":"[[{\\"\\\\","b":[1,-2.5e3,true,null,"ä😀"],"c":{}}`
    expect(parseJson(bytes(text))).toEqual(Either.right(JSON.parse(text)))
    expect(parseJson(bytes("  7\n"))).toEqual(Either.right(7))
  })

  it.each([
    ["nothing", ""],
    ["white space", "  "],
    ["truncated object", '{"a":1'],
    ["truncated string", '{"a":"b'],
    ["truncated escape", '"\\'],
    ["trailing comma", "[1,]"],
    ["comment", "/**/1"],
    ["two values", "{}{}"],
    ["NaN", "NaN"],
    ["single quotes", "{'a':1}"],
    ["byte order mark", "\ufeff{}"],
    ["unmatched closing brackets", "]]]]"]
  ])("refuses %s", (_, text) => {
    expect(problem(text)).toMatch(/^is (?:empty|not valid JSON)$/)
  })

  it.each([
    ["a lone continuation byte", [0x22, 0x80, 0x22]],
    ["an overlong form", [0x22, 0xc0, 0xaf, 0x22]],
    ["an encoded surrogate", [0x22, 0xed, 0xa0, 0x80, 0x22]],
    ["a cut character", [0x22, 0xc3, 0x22]],
    ["UTF-16", [0xff, 0xfe, 0x22, 0x00]]
  ])("refuses invalid UTF-8: %s", (_, input) => {
    expect(problem(Uint8Array.from(input))).toBe("is not valid UTF-8")
  })

  it("accepts 64 levels of nesting, not 65", () => {
    expect(problem(nested(nestingLimit))).toBeUndefined()
    expect(problem(nested(nestingLimit + 1))).toBe("nests deeper than 64 levels")
    expect(problem(`${'{"a":'.repeat(65)}1${"}".repeat(65)}`)).toBe("nests deeper than 64 levels")
    expect(problem(nested(50_000))).toBe("nests deeper than 64 levels")
    expect(problem("[".repeat(500_000))).toBe("nests deeper than 64 levels")
    expect(problem(`[${"[],".repeat(1_000)}[]]`)).toBeUndefined()
  })

  it.each(['{"__proto__":1}', '{"a":[{"\\u005f_proto__":{}}]}', '{"__pr\\u006fto__":null}'])(
    "refuses a __proto__ key in any spelling: %s",
    (text) => {
      expect(problem(text)).toBe("holds a __proto__ key")
    }
  )

  it("accepts __proto__ as a value", () => {
    expect(problem('{"a":"__proto__"}')).toBeUndefined()
  })

  it.each(['"\\ud800"', '{"\\udfff":1}', '["\\udc00\\ud800"]', '{"a":"x\\uD83Dy"}'])(
    "refuses a lone surrogate: %s",
    (text) => {
      expect(problem(text)).toBe("holds a lone surrogate")
    }
  )

  it("accepts an escaped pair of surrogates", () => {
    expect(parseJson(bytes('"\\ud83d\\ude00"'))).toEqual(Either.right("😀"))
  })

  it.each(["1e309", "-1e400", '{"a":[1e999]}', "9".repeat(400)])(
    "refuses a number that overflows a double: %s",
    (text) => {
      expect(problem(text)).toBe("holds a number that is too large")
    }
  )

  it("reads numbers as doubles, without the digits beyond", () => {
    expect(parseJson(bytes("[9007199254740993, 0.1000000000000000055, 12345678901234567890]"))).toEqual(
      Either.right([9_007_199_254_740_992, 0.1, 12_345_678_901_234_567_000])
    )
  })

  it("accepts numbers at the edge of a double", () => {
    expect(parseJson(bytes("1.7976931348623157e308"))).toEqual(Either.right(Number.MAX_VALUE))
    expect(parseJson(bytes("1e-999"))).toEqual(Either.right(0))
  })

  it("reads half a megabyte in less than 500 ms of processor time", () => {
    const text = `{"a":[${`{"b":"${"x".repeat(80)}","c":[1,2,3]},`.repeat(4_500)}1]}`
    expect(cpuMillisOf(() => expect(problem(text)).toBeUndefined())).toBeLessThan(500)
  })
})
