/** The slice of CI. `npm run proof -- model` plays the full run. */
import { expect, it } from "vitest"
import { playChunk } from "./Play.ts"

it("the model of sessions holds in 300 sequences", async () => {
  const { broken, figures } = await playChunk({ seed: 1, count: 300 })
  expect(broken).toEqual([])
  expect(figures.sequences).toBe(300)
})
