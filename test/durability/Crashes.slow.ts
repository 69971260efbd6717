import { expect, it } from "vitest"
import { playSeed } from "./Runs.ts"

it("Every promise holds after a crash at each place, on one of the databases", async () => {
  const [{ broken } = { broken: ["nothing was played"] }] = await playSeed(["slice"], { seed: 1 })
  expect(broken).toEqual([])
})
