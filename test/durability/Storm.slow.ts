import { expect, it } from "vitest"
import { playSeed } from "./Runs.ts"

it("Every promise holds in a storm over three instances", async () => {
  const [{ broken } = { broken: ["nothing was played"] }] = await playSeed(["storm"], {
    seed: 1,
    seconds: 20
  })
  expect(broken).toEqual([])
})
