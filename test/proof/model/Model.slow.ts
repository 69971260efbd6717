/** The slice of CI. `npm run proof -- model` plays the full run. */
import { describe, expect, it } from "vitest"
import { playHere } from "./Play.ts"

describe("the model of sessions", () => {
  it("holds in 300 sequences", async () => {
    const { broken, figures } = await playHere(1, 300)
    expect(broken).toEqual([])
    expect(figures.sequences).toBe(300)
  })
})
