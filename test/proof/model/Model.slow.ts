/** The slice of CI. `npm run proof -- model` plays the full run. */
import { expect, it } from "vitest"
import { play } from "./Play.ts"

it("the model of sessions holds in 60 sequences", async () => {
  const { broken, figures } = await play({ seed: 1, count: 60, log: () => undefined })
  expect(broken).toEqual([])
  expect(figures.sequences).toBe(60)
})
