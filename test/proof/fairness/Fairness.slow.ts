/** The slice of the fairness suite that CI plays: every scenario with few clients and some minutes. */
import { describe, expect, it } from "vitest"
import { playScenarios } from "./Play.ts"
import { scenarios } from "./Scenarios.ts"

const slice = { count: 150, isFull: false }

describe("Under load", () => {
  for (const { name } of scenarios)
    it(`every kind of client gets what its bounds say: ${name}`, async () => {
      const results = await playScenarios([name], 1, slice, () => undefined)
      expect(results.flatMap(({ broken }) => broken)).toEqual([])
    })
})
