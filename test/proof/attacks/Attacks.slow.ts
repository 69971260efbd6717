import { expect, it } from "vitest"
import { play } from "./Play.ts"

it("holds against the attacks of the slice", async () => {
  const { broken } = await play({ seed: 1, count: 200, log: () => undefined })
  expect(broken).toEqual([])
})
