/** A seeded part of the fault matrix: each path under each group, and each call with each of its rules (docs/proof.md). */
import { expect, it } from "vitest"
import { play } from "./Play.ts"

it("answers, calls and leaves behind what the table says", async () => {
  const { broken } = await play({ seed: 1, count: 0, log: () => undefined })
  expect(broken).toEqual([])
})
