/** The version is stated in package.json. What cannot read it there says the same; for the client's sources test/client/Types.test.ts shows it. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { version } from "../../src/schema/Release.ts"
import { root } from "../support/Process.ts"
import { pairsOf, readRecipe } from "./Recipe.ts"

const read = (name: string) => readFileSync(join(root, name), "utf8")
const labels = readRecipe()
  .stages.at(-1)
  ?.find(({ name }) => name === "LABEL")
const lock = JSON.parse(read("package-lock.json"))

describe("The version", () => {
  it.each<readonly [string, unknown]>([
    ["package-lock.json", lock.version],
    ["package-lock.json, the package", lock.packages[""].version],
    ["Dockerfile", labels === undefined ? undefined : pairsOf(labels)["org.opencontainers.image.version"]]
  ])("of %s is that of package.json", (_, stated) => {
    expect(stated).toBe(version)
  })

  it("is not in the client's manifest, which gets it when it is built", () => {
    expect(JSON.parse(read("client/package.json"))).not.toHaveProperty("version")
  })
})
