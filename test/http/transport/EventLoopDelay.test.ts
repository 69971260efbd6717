import { assert, describe, it } from "@effect/vitest"
import {
  leastInFlight,
  makeDelayRule,
  measureEvery,
  startEventLoopDelay
} from "../../../src/http/transport/EventLoopDelay.ts"

const bounds = { low: 40, high: 80 }

/** Turns of the event loop of this length, for about `duration` milliseconds. */
const run = (rule: ReturnType<typeof makeDelayRule>, turn: number, duration: number) => {
  for (let elapsed = 0; elapsed < duration; elapsed += turn) rule.measure(turn, 0)
}

const refusedOf = (rule: ReturnType<typeof makeDelayRule>, requests: number): number =>
  Array.from({ length: requests }, () => rule.decide(leastInFlight)).filter((refused) => refused).length

describe("Event loop delay", () => {
  it("refuses nothing while timers are on time, nor for one long turn", () => {
    const rule = makeDelayRule(bounds)
    run(rule, measureEvery, 2_000)
    assert.strictEqual(rule.mean(), 0)
    rule.measure(60, 0)
    assert.strictEqual(refusedOf(rule, 1_000), 0)
  })

  it("refuses a part of the requests when turns stay long, and all when they are longer", () => {
    const rule = makeDelayRule(bounds)
    run(rule, measureEvery + 60, 4_000)
    assert.approximately(refusedOf(rule, 1_000), 500, 10)
    run(rule, measureEvery + 150, 4_000)
    assert.strictEqual(refusedOf(rule, 1_000), 1_000)
  })

  it("by default refuses none at a mean delay of 100 ms, and all at 300 ms, from 64 requests on", () => {
    assert.strictEqual(leastInFlight, 64)
    for (const [delay, refused] of [
      [99, 0],
      [200, 500],
      [301, 1_000]
    ] as const) {
      const rule = makeDelayRule()
      run(rule, measureEvery + delay, 8_000)
      assert.approximately(refusedOf(rule, 1_000), refused, 10, `${delay} ms`)
    }
  })

  it("accepts again within a second after the load ends", () => {
    const rule = makeDelayRule(bounds)
    run(rule, measureEvery + 150, 4_000)
    run(rule, measureEvery, 1_000)
    assert.strictEqual(refusedOf(rule, 1_000), 0)
  })

  it("refuses nothing while few requests are in flight, since other programs take the time then", () => {
    const rule = makeDelayRule(bounds)
    run(rule, measureEvery + 150, 4_000)
    assert.isFalse(rule.decide(leastInFlight - 1))
    assert.isTrue(rule.decide(leastInFlight))
  })

  it("refuses while requests wait for long, also when timers are on time", () => {
    const rule = makeDelayRule(bounds)
    for (let elapsed = 0; elapsed < 4_000; elapsed += measureEvery) rule.measure(measureEvery, 100)
    assert.strictEqual(refusedOf(rule, 1_000), 1_000)
  })

  it("measures the delay of this process", async () => {
    const delay = startEventLoopDelay(() => 0)
    try {
      const end = performance.now() + 400
      while (performance.now() < end) {
        const turn = performance.now() + 100
        while (performance.now() < turn);
        await new Promise((resolve) => setTimeout(resolve, 0))
      }
      assert.isAbove(delay.mean(), 20)
    } finally {
      delay.stop()
    }
  })
})
