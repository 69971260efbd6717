import { describe, expect, it } from "vitest"
import { isLowerVersion } from "../../src/schema/ClientVersion.ts"
import { clientVersionPattern } from "../../src/schema/Patterns.ts"

/** In ascending order; the pre-releases are the example of Semantic Versioning 2.0.0, 11. */
const ascending = [
  "0.0.9",
  "0.1.0-rc.1",
  "0.1.0",
  "0.1.9",
  "0.1.10",
  "0.9.0",
  "0.10.0",
  "1.0.0-alpha",
  "1.0.0-alpha.1",
  "1.0.0-alpha.beta",
  "1.0.0-beta",
  "1.0.0-beta.2",
  "1.0.0-beta.11",
  "1.0.0-beta.11-hotfix",
  "1.0.0-rc.1",
  "1.0.0",
  "2.0.0",
  "10.0.0",
  // Differ only beyond the precision of a double.
  "90071992547409930.0.0",
  "90071992547409931.0.0"
]

describe("The order of client versions", () => {
  it("compares numbers by value, and a pre-release is lower than its release", () => {
    for (const [at, version] of ascending.entries())
      for (const [other, than] of ascending.entries())
        expect([version, than, isLowerVersion(version, than)]).toEqual([version, than, at < other])
  })

  it("ignores builds and leading zeros", () => {
    for (const [version, than] of [
      ["1.0.0+1", "1.0.0+2"],
      ["1.0.0+a-b", "1.0.0"],
      ["1.0.0-rc.1+1", "1.0.0-rc.1+2"],
      ["1.02.0", "1.2.0"]
    ] as const)
      expect([version, isLowerVersion(version, than), isLowerVersion(than, version)]).toEqual([
        version,
        false,
        false
      ])
  })

  it("is defined for all that the pattern accepts, and the pattern refuses all else", () => {
    for (const version of [...ascending, "1.0.0-", "1.0", "v1.0.0", "1.0.0 ", "1.0.0, 1.0.0", ""])
      expect([version, clientVersionPattern.test(version)]).toEqual([version, ascending.includes(version)])
    for (const odd of ["1.0.0-.", "1.0.0-a..b", "1.0.0-+x", "1.0.0+-"]) {
      expect([odd, clientVersionPattern.test(odd)]).toEqual([odd, true])
      expect([odd, isLowerVersion(odd, "1.0.1"), isLowerVersion(odd, "0.9.9")]).toEqual([odd, true, false])
    }
  })
})
