import { Socket } from "node:net"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import { makeRequestQueue, mostOfConnection, mostWaiting } from "../../../src/http/transport/RequestQueue.ts"
import { httpRequestsWaiting } from "../../../src/services/Metrics.ts"

/** A queue with a clock that only the test and the started work advance. */
const setUp = () => {
  const clock = { now: 1_000 }
  const queue = makeRequestQueue(() => clock.now)
  const started: Array<string> = []
  return {
    clock,
    queue,
    started,
    /** Adds a request that takes so many milliseconds. */
    add: (name: string, cost: number, socket = new Socket()) =>
      queue.add(socket, () => {
        started.push(name)
        clock.now += cost
      })
  }
}

/** The end of the current turn of the event loop. */
const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

describe("The queue of requests", () => {
  it("starts a request at once while the turn has time", () => {
    const { add, queue, started } = setUp()
    add("a", 2)
    add("b", 2)
    assert.deepStrictEqual(started, ["a", "b"])
    assert.strictEqual(queue.length(), 0)
    assert.strictEqual(queue.oldestWait(), 0)
  })

  it("starts the others in later turns, in order of arrival, each turn for 5 ms", async () => {
    const { add, clock, queue, started } = setUp()
    for (const name of ["a", "b", "c", "d", "e"]) add(name, 3)
    assert.deepStrictEqual(started, ["a", "b"])
    clock.now += 10
    assert.strictEqual(queue.length(), 3)
    assert.strictEqual(queue.oldestWait(), 10)
    await turn()
    assert.deepStrictEqual(started, ["a", "b", "c", "d"])
    await turn()
    assert.deepStrictEqual(started, ["a", "b", "c", "d", "e"])
    assert.strictEqual(queue.length(), 0)
  })

  it("shows in its metric how many wait at the begin of a turn", async () => {
    const { add } = setUp()
    const shown = () => Effect.runSync(Metric.value(httpRequestsWaiting)).value
    for (const name of ["a", "b", "c", "d", "e"]) add(name, 3)
    const seen: Array<number> = []
    for (let at = 0; at < 3; at += 1) {
      await turn()
      seen.push(shown())
    }
    assert.deepStrictEqual(seen, [3, 1, 0])
  })

  it("counts the work that a started request goes on with before it waits", async () => {
    const { add, clock, queue, started } = setUp()
    add("a", 9)
    queue.add(new Socket(), () => {
      started.push("b")
      void Promise.resolve().then(() => {
        clock.now += 9
      })
    })
    add("c", 1)
    await turn()
    assert.deepStrictEqual(started, ["a", "b"])
    await turn()
    assert.deepStrictEqual(started, ["a", "b", "c"])
  })

  it("starts none while connections are accepted, for 20 ms at most", async () => {
    const { add, clock, queue, started } = setUp()
    add("a", 9)
    add("b", 9)
    for (const elapsed of [0, 10, 19]) {
      queue.connectionAccepted()
      await turn()
      assert.deepStrictEqual(started, ["a"], `after ${elapsed} ms`)
      clock.now += elapsed === 19 ? 1 : elapsed === 10 ? 9 : 10
    }
    queue.connectionAccepted()
    await turn()
    assert.deepStrictEqual(started, ["a", "b"])
  })

  it("starts them again in the first turn without a new connection", async () => {
    const { add, queue, started } = setUp()
    add("a", 9)
    add("b", 9)
    queue.connectionAccepted()
    await turn()
    await turn()
    assert.deepStrictEqual(started, ["a", "b"])
  })

  it("admits no more than its bound, 1,000", async () => {
    assert.strictEqual(mostWaiting, 1_000)
    const { add, queue } = setUp()
    add("first", 9)
    for (let count = 0; count < mostWaiting; count += 1) assert.strictEqual(add("a", 0), "admitted")
    assert.strictEqual(add("b", 0), "full")
    assert.strictEqual(queue.length(), mostWaiting)
    await turn()
    assert.strictEqual(add("b", 0), "admitted")
  })

  it("bounds the requests of one connection to 32, and admits no further one of a connection that exceeds the bound", async () => {
    const { add, queue } = setUp()
    const socket = new Socket()
    assert.strictEqual(mostOfConnection, 32)
    add("first", 9)
    for (let count = 0; count < mostOfConnection; count += 1)
      assert.strictEqual(add("a", 0, socket), "admitted")
    assert.strictEqual(add("a", 0), "admitted")
    assert.strictEqual(add("a", 0, socket), "crowded")
    assert.strictEqual(add("a", 0, socket), "flooding")
    await turn()
    assert.strictEqual(queue.length(), 0)
    assert.strictEqual(add("a", 0, socket), "flooding")
  })

  it("refuses one request of a connection in a turn while it is full, and ends a connection with more", async () => {
    const { add } = setUp()
    const [reading, pipelining] = [new Socket(), new Socket()]
    add("first", 9)
    for (let count = 0; count < mostWaiting; count += 1) add("a", 9)
    assert.strictEqual(add("b", 0, reading), "full")
    assert.strictEqual(add("b", 0, pipelining), "full")
    assert.strictEqual(add("b", 0, pipelining), "crowded")
    assert.strictEqual(add("b", 0, pipelining), "flooding")
    await turn()
    assert.strictEqual(add("b", 0), "admitted")
    assert.strictEqual(add("b", 0, reading), "full")
  })
})
