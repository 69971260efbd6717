/** The slice of the fairness suite that CI plays: scenarios with few clients and some minutes. */
import { expect, it } from "vitest"
import { playScenario } from "./Play.ts"
import { scenarios } from "./Scenarios.ts"

it.each(scenarios)("every kind of client gets what its bounds say: $name", async (scenario) => {
  const broken = await playScenario(scenario, 1, { count: 150, isFull: false })
  expect(broken).toEqual([])
})
