/** Every call of the API in a world without faults: it answers, calls the upstreams that its row names, and breaks no law. */
import { describe, expect, it } from "vitest"
import { callNames, calls, registerSender } from "./Calls.ts"
import { operations } from "./Contract.ts"
import { isSuccess, type Sent } from "./Driver.ts"
import { openWorld } from "./World.ts"

it("has a row for every operation of the contract", () => {
  expect(new Set(callNames.map((name) => calls[name].operation))).toEqual(
    new Set(operations.map(({ id }) => id))
  )
})

describe("In a world that works", () => {
  it.each(callNames)("%s succeeds, and again, and leaves what its row says", async (name) => {
    const world = await openWorld({ instances: 2 })
    try {
      const { oracle, time, upstreams } = world
      const send = (request: Sent) => time.complete(world.send("192.0.2.1", request))
      const [first] = world.instances
      if (name === "ting" && first !== undefined) await registerSender(world, first)
      const call = calls[name]
      const before = upstreams.calls.length
      const subject = call.prepare({ world, name: "1" })
      const answer = await send(subject.request)
      expect(isSuccess(answer), answer.text).toBe(true)
      await time.complete(time.sleep(100))
      const made = new Set(upstreams.calls.slice(before).map(({ path }) => path))
      expect([...made].sort()).toEqual([...call.calls].sort())
      const again = await send(subject.request)
      expect(isSuccess(again), again.text).toBe(true)
      expect(await subject.problems(again)).toEqual([])
      expect(oracle.problems()).toEqual([])
    } finally {
      await world.close()
    }
  })
})
