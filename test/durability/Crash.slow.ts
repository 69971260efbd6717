/** Kills processes at every crash point on both databases, and storms: nothing is lost or done twice. For more seeds: `npm run durability`. */
import { expect, it } from "vitest"
import { playSeeds } from "./Runs.ts"

it("a killed process loses nothing and does nothing twice", async () => {
  const [verdict] = await playSeeds({ seeds: [1], seconds: 30 })
  expect(verdict?.broken).toEqual([])
})
