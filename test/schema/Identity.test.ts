/** The forms of public ids and of versions. Those of headers are in the table of inputs. */
import { expect, it } from "vitest"
import { clientVersionPattern, isLowerVersion, publicIdPattern } from "../../src/schema/Patterns.ts"

const a = (count: number) => "a".repeat(count)

it("A public id has its kind and 3 to 30, or of a silicon to 50, lower-case characters", () => {
  for (const id of ["c:ana", "si:dj_", `c:${a(30)}`, `si:${a(50)}`, "si:a-0"])
    expect(id).toMatch(publicIdPattern)
  for (const id of ["c:an", "si:dj", `c:${a(31)}`, `si:${a(51)}`, "C:ana", "c:Ana", "ana", "c:ana\n"])
    expect(id).not.toMatch(publicIdPattern)
})

/** In ascending order. */
const versions = ["0.0.9", "0.1.0-rc.1", "0.1.9", "0.1.10", "0.9.0", "0.10.0", "1.0.0+build", "10.0.0"]

it("Versions are compared by their numbers", () => {
  for (const [at, version] of versions.entries()) {
    expect(version).toMatch(clientVersionPattern)
    for (const [other, than] of versions.entries())
      expect([version, than, isLowerVersion(version, than)]).toEqual([version, than, at < other])
  }
  expect(isLowerVersion("0.1.0-rc.1", "0.1.0")).toBe(false)
})
