/** Every call of the API in a world without faults: it answers, calls the upstreams that its row names, and breaks no law. */
import { describe, expect, it } from "vitest"
import { callNames, calls, registerSender } from "./Calls.ts"
import { operations } from "./Contract.ts"
import { isSuccess, type Sent } from "./Driver.ts"
import { faults } from "./Faults.ts"
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

describe("A world with workers and faults", () => {
  it("delivers what was acknowledged once, and the oracle says what is missing", async () => {
    const world = await openWorld({ instances: 2, delivery: {} })
    try {
      const { faults: planned, oracle, time } = world
      planned.plan({ path: "create", fault: faults["lost after"] })
      planned.plan({ path: "ingest", fault: faults["500 after"] })
      for (const name of ["report with a bearer", "report without a bearer", "telemetry"] as const) {
        const { request } = calls[name].prepare({ world, name: "1" })
        expect(isSuccess(await time.complete(world.send("192.0.2.1", request)))).toBe(true)
      }
      expect(oracle.problems({ isQuiet: true })).not.toEqual([])
      await time.runUntil(2 * 60_000)
      expect(world.logs.length).toBeGreaterThan(0)
      expect(oracle.problems({ isQuiet: true })).toEqual([])
    } finally {
      await world.close()
    }
  })

  it("keeps what was acknowledged when the process dies, and answers from the next one", async () => {
    const world = await openWorld({ instances: 1 })
    try {
      const { faults: planned, oracle, time } = world
      const { request } = calls.refresh.prepare({ world, name: "1" })
      planned.plan({ path: "tokens", fault: faults["kill after"] })
      await expect(time.complete(world.send("192.0.2.1", request))).rejects.toThrow("fetch failed")
      await expect(time.complete(world.send("192.0.2.1", request))).rejects.toThrow("fetch failed")
      world.start()
      expect(isSuccess(await time.complete(world.send("192.0.2.1", request)))).toBe(true)
      expect(oracle.problems()).toEqual([])
    } finally {
      await world.close()
    }
  })
})
