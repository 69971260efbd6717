import { expect, it } from "vitest"
import { play } from "./Play.ts"

it("1,200 generated requests meet every law", async () => {
  const { broken } = await play({ seed: 1, count: 1_200, log: () => undefined })
  expect(broken).toEqual([])
})
