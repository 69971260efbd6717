/** The forms of identifiers, credentials and versions. */
import { describe, expect, it } from "vitest"
import { isLowerVersion } from "../../src/schema/ClientVersion.ts"
import { requestedScopes } from "../../src/schema/Identity.ts"
import {
  accessTokenPattern,
  clientVersionPattern,
  idempotencyKeyPattern,
  organisationPattern,
  publicIdPattern,
  refreshTokenPattern,
  requestIdPattern,
  testingSecretPattern
} from "../../src/schema/Patterns.ts"

const a = (count: number) => "a".repeat(count)

/** In ascending order; the pre-releases are the example of Semantic Versioning 2.0.0, 11. */
const versions =
  `0.0.9 0.1.0-rc.1 0.1.0 0.1.9 0.1.10 0.9.0 0.10.0 1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta
  1.0.0-beta.2 1.0.0-beta.11 1.0.0-beta.11-hotfix 1.0.0-rc.1 1.0.0 2.0.0 10.0.0
  90071992547409930.0.0 90071992547409931.0.0`.split(/\s+/)
/** Not of the standard, and accepted all the same. */
const odd = ["1.0.0-.", "1.0.0-a..b", "1.0.0-+x", "1.0.0+-"]

const ids = ["c:ana", "si:dj_", `c:${a(30)}`, `si:${a(50)}`, "si:a-0"]
const access = [`oat_${a(28)}`, `oat_${a(8188)}`, `oat_${"-_0.~+/=".repeat(10)}`]
const spoiled = [`oat_${a(28)} `, `oat_${a(28)}é`]
const refresh = [`ort_${a(28)}`, `ort_${a(8188)}`]
const secrets = [`ask_${a(42)}`, `ask_${a(44)}`, `ASK_${a(43)}`, "", `ask_${a(42)}.`]
const keys = [a(15), a(256), `${a(16)} `, `${a(16)}\u007f`, "é".repeat(16)]
const rows: ReadonlyArray<
  readonly [name: string, pattern: RegExp, fits: ReadonlyArray<string>, misses: ReadonlyArray<string>]
> = [
  [
    "public id",
    publicIdPattern,
    ids,
    ["c:an", "si:dj", `c:${a(31)}`, `si:${a(51)}`, "C:ana", "c:Ana", "ana", "c:ana\n"]
  ],
  ["organisation", organisationPattern, ["abc", a(50), "0_-"], ["ab", a(51), "Acme", "a c", "acme\n", ""]],
  [
    "access token",
    accessTokenPattern,
    access,
    [`oat_${a(27)}`, `oat_${a(8189)}`, `ort_${a(28)}`, ...spoiled]
  ],
  [
    "refresh token",
    refreshTokenPattern,
    refresh,
    [`ort_${a(27)}`, `ort_${a(8189)}`, `oat_${a(28)}`, `ort_${a(28)}\n`]
  ],
  ["testing secret", testingSecretPattern, [`ask_${a(43)}`], secrets],
  ["idempotency key", idempotencyKeyPattern, ["!".repeat(16), "~".repeat(255)], keys],
  ["request id", requestIdPattern, ["a.b_c-12", a(128)], [a(7), a(129), "abcdefg/", "abcdefgh\n"]],
  [
    "client version",
    clientVersionPattern,
    [...versions, ...odd],
    ["1.0.0-", "1.0", "v1.0.0", "1.0.0 ", "1.0.0, 1.0.0", ""]
  ]
]

describe("The form of identifiers", () => {
  it.each(rows)("a %s", (_, pattern, fits, misses) => {
    for (const text of fits) expect(text).toMatch(pattern)
    for (const text of misses) expect(text).not.toMatch(pattern)
  })

  it("lists the scopes of a login in ascending order, as IAM does", () => {
    expect(requestedScopes).toEqual([
      "obo:ting:subscriptions.register",
      "obo:ting:tings.send",
      "self.identity.read",
      "self.profile.read"
    ])
  })
})

describe("The order of client versions", () => {
  it("compares numbers by value, and a pre-release is lower than its release", () => {
    for (const [at, version] of versions.entries())
      for (const [other, than] of versions.entries())
        expect([version, than, isLowerVersion(version, than)]).toEqual([version, than, at < other])
    for (const one of odd)
      expect([isLowerVersion(one, "1.0.1"), isLowerVersion(one, "0.9.9")]).toEqual([true, false])
  })

  it.each([
    ["1.0.0+1", "1.0.0+2"],
    ["1.0.0+a-b", "1.0.0"],
    ["1.0.0-rc.1+1", "1.0.0-rc.1+2"],
    ["1.02.0", "1.2.0"]
  ])("ignores builds and leading zeros: %s is %s", (version, than) => {
    expect([isLowerVersion(version, than), isLowerVersion(than, version)]).toEqual([false, false])
  })
})
