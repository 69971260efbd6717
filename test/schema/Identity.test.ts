import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import { requestedScopes } from "../../src/schema/Identity.ts"
import {
  accessTokenPattern,
  idempotencyKeyPattern,
  organisationPattern,
  publicIdPattern,
  refreshTokenPattern,
  requestIdPattern,
  testingSecretPattern
} from "../../src/schema/Patterns.ts"

const rows: ReadonlyArray<{
  readonly name: string
  readonly pattern: RegExp
  readonly fits: ReadonlyArray<string>
  readonly misses: ReadonlyArray<string>
}> = [
  {
    name: "a public id is c: with 3 to 30, or si: with 3 to 50 characters",
    pattern: publicIdPattern,
    fits: ["c:ana", "si:dj_", `c:${"a".repeat(30)}`, `si:${"a".repeat(50)}`, "si:a-0"],
    misses: [
      "c:an",
      "si:dj",
      `c:${"a".repeat(31)}`,
      `si:${"a".repeat(51)}`,
      "C:ana",
      "c:Ana",
      "ana",
      "c:ana\n"
    ]
  },
  {
    name: "an organisation is 3 to 50 of [a-z0-9_-]",
    pattern: organisationPattern,
    fits: ["abc", "a".repeat(50), "0_-"],
    misses: ["ab", "a".repeat(51), "Acme", "a c", "acme\n", ""]
  },
  {
    name: "an access token is oat_ and 28 to 8188 visible characters",
    pattern: accessTokenPattern,
    fits: [`oat_${"a".repeat(28)}`, `oat_${"A".repeat(8188)}`, `oat_${"-_0.~+/=".repeat(10)}`],
    misses: [
      `oat_${"a".repeat(27)}`,
      `oat_${"a".repeat(8189)}`,
      `ort_${"a".repeat(28)}`,
      `oat_${"a".repeat(28)} `,
      `oat_${"a".repeat(28)}é`
    ]
  },
  {
    name: "a refresh token is ort_ and 28 to 8188 visible characters",
    pattern: refreshTokenPattern,
    fits: [`ort_${"a".repeat(28)}`, `ort_${"A".repeat(8188)}`],
    misses: [
      `ort_${"a".repeat(27)}`,
      `ort_${"a".repeat(8189)}`,
      `oat_${"a".repeat(28)}`,
      `ort_${"a".repeat(28)}\n`
    ]
  },
  {
    name: "a testing secret is ask_ and exactly 43 characters",
    pattern: testingSecretPattern,
    fits: [`ask_${"a".repeat(43)}`],
    misses: [
      `ask_${"a".repeat(42)}`,
      `ask_${"a".repeat(44)}`,
      `ASK_${"a".repeat(43)}`,
      "",
      `ask_${"a".repeat(42)}.`
    ]
  },
  {
    name: "an idempotency key is 16 to 255 visible ASCII characters",
    pattern: idempotencyKeyPattern,
    fits: ["!".repeat(16), "~".repeat(255)],
    misses: ["!".repeat(15), "~".repeat(256), `${"!".repeat(16)} `, `${"!".repeat(16)}\u007f`, "é".repeat(16)]
  },
  {
    name: "a request id is 8 to 128 of [A-Za-z0-9._-]",
    pattern: requestIdPattern,
    fits: ["a.b_c-12", "a".repeat(128)],
    misses: ["a".repeat(7), "a".repeat(129), "abcdefg/", "abcdefgh\n"]
  }
]

describe("identifiers", () => {
  for (const { fits, misses, name, pattern } of rows) {
    it(name, () => {
      for (const text of fits) assert.match(text, pattern)
      for (const text of misses) assert.notMatch(text, pattern)
    })
  }

  it("list the scopes of a login in ascending order, as IAM does", () => {
    deepStrictEqual([...requestedScopes], [...requestedScopes].sort())
    deepStrictEqual(
      [...requestedScopes],
      ["obo:ting:subscriptions.register", "obo:ting:tings.send", "self.identity.read", "self.profile.read"]
    )
  })
})
