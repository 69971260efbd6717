import { expect, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import * as Redacted from "effect/Redacted"
import { canonicalJson, digestOf, randomHex, sha256 } from "../../src/services/Digest.ts"

/** The value after "null = absent", with its keys in another order. */
const essence = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(essence)
  if (typeof value !== "object" || value === null) return Object.is(value, -0) ? 0 : value
  const members = Object.entries(value).filter(([, member]) => member !== null)
  return Object.fromEntries(members.reverse().map(([name, member]) => [name, essence(member)]))
}

it("A digest is the lower-case hex of FIPS 180, of a text, of bytes and of a secret", () => {
  const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
  const digests = [sha256("abc"), sha256(new Uint8Array([97, 98, 99])), digestOf(Redacted.make("abc"))]
  expect(digests).toEqual([abc, abc, abc])
})

it("Random hex has two characters a byte and does not repeat", () => {
  expect(randomHex(16)).toMatch(/^[0-9a-f]{32}$/)
  expect(randomHex(16)).not.toBe(randomHex(16))
})

it("Canonical JSON is that of the value without its null members, whatever the order of keys", () => {
  FastCheck.assert(
    FastCheck.property(FastCheck.jsonValue(), (value) => {
      expect(canonicalJson(essence(value))).toBe(canonicalJson(value))
      expect(JSON.parse(canonicalJson(value))).toEqual(essence(value))
    })
  )
})
