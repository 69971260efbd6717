import { expect, it } from "@effect/vitest"
import * as FastCheck from "effect/FastCheck"
import { canonicalJson } from "../../src/services/Digest.ts"

/** The value after "null = absent", with its keys in another order. */
const essence = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(essence)
  if (typeof value !== "object" || value === null) return Object.is(value, -0) ? 0 : value
  const members = Object.entries(value).filter(([, member]) => member !== null)
  return Object.fromEntries(members.reverse().map(([name, member]) => [name, essence(member)]))
}

it("Canonical JSON is that of the value without its null members, whatever the order of keys", () => {
  FastCheck.assert(
    FastCheck.property(FastCheck.jsonValue(), (value) => {
      expect(canonicalJson(essence(value))).toBe(canonicalJson(value))
      expect(JSON.parse(canonicalJson(value))).toEqual(essence(value))
    })
  )
})
