import { describe, expect, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as Redacted from "effect/Redacted"
import { canonicalJson, digestOf, randomHex, sha256 } from "../../src/services/Digest.ts"

/** The value after "null = absent" and "keys in order". */
const essence = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(essence)
  if (typeof value !== "object" || value === null) return Object.is(value, -0) ? 0 : value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, member]) => member !== null)
      .map(([name, member]) => [name, essence(member)])
  )
}

const reversed = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(reversed)
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([name, member]) => [name, reversed(member)])
  )
}

const json = FastCheck.jsonValue()

describe("digests", () => {
  it("sha256 is the lower-case hex of FIPS 180 for text and for bytes", () => {
    const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    expect(sha256("abc")).toBe(abc)
    expect(sha256(new Uint8Array([97, 98, 99]))).toBe(abc)
  })

  it("a secret's digest is the digest of its value", () => {
    expect(digestOf(Redacted.make("abc"))).toBe(sha256("abc"))
  })

  it("random hex has two characters a byte and does not repeat", () => {
    expect(randomHex(16)).toMatch(/^[0-9a-f]{32}$/)
    expect(randomHex(16)).not.toBe(randomHex(16))
  })
})

describe("canonical JSON", () => {
  it("does not depend on the order of keys at any depth", () => {
    FastCheck.assert(
      FastCheck.property(json, (value) => {
        expect(canonicalJson(reversed(value))).toBe(canonicalJson(value))
      })
    )
  })

  it("encodes exactly the value without its null members", () => {
    FastCheck.assert(
      FastCheck.property(json, (value) => {
        expect(JSON.parse(canonicalJson(value))).toEqual(essence(value))
      })
    )
  })
})
