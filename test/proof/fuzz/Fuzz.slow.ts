import { expect, it } from "vitest"
import { fuzz } from "./Fuzzing.ts"

it("3,000 generated requests meet every law", async () => {
  const { broken } = await fuzz({ seed: 1, count: 3_000, people: 40, log: () => undefined })
  expect(broken).toEqual([])
})
