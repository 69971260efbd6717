import { expect, it } from "vitest"
import { play } from "./Play.ts"

it("2,000 generated requests meet every law", async () => {
  const { broken } = await play({ seed: 1, count: 2_000, log: () => undefined })
  expect(broken).toEqual([])
})
