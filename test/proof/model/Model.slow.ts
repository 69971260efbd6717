/** The slice of CI. `npm run proof -- model` plays the full run. */
import { describe, expect, it } from "vitest"
import { playHere } from "./Play.ts"

describe("the model of sessions", () => {
  it("holds in 150 sequences", async () => {
    const { broken, figures } = await playHere(1, 150)
    expect(broken).toEqual([])
    expect(figures.sequences).toBe(150)
  })
})
