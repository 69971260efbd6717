/** A seeded part of the fault matrix: at least one failure of each kind for every operation and path (docs/proof.md). */
import { readFileSync } from "node:fs"
import { expect, it } from "vitest"
import { renderPage } from "./Page.ts"
import { play } from "./Play.ts"

it("answers, calls and leaves behind what the table says", async () => {
  const { broken, figures } = await play({ seed: 1, count: 0, log: () => undefined })
  expect(broken).toEqual([])
  expect(figures.cells).toBeGreaterThan(400)
})

it("is published as it is demanded", () => {
  const page = readFileSync(new URL("../../../docs/fault-matrix.md", import.meta.url), "utf8")
  expect(page, "write it with: node --import tsx test/proof/matrix/Publish.ts").toBe(renderPage())
})
