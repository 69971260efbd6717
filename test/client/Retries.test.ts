/** When a call is repeated, and when it ends. Timers and clocks move only when a test moves them. */
import { setImmediate } from "node:timers/promises"
import { afterEach, describe, expect, it, vi } from "vitest"
import { type FailureCode, failureTable } from "../../src/schema/FailureTable.ts"
import { failed, makeClient, ok, systemError } from "./support/ClientWorld.ts"
import { type Answer, failure, never } from "./support/Service.ts"

afterEach(() => void vi.useRealTimers())

const failing = (code: FailureCode, after?: number): Answer => {
  const { retryable, status } = failureTable[code]
  const headers = after === undefined ? {} : { "retry-after": String(after) }
  return () => failure(status, code, headers, { message: "Ting is away.", retryable })
}

/** Gives these answers in their order, then a success. Resolves to the times of the attempts, and the result of the call. */
const play = async (
  seconds: number,
  script: ReadonlyArray<Answer>,
  call: "version" | "login" = "version"
) => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
  const { answers, client, later } = makeClient({ deadlineMilliseconds: seconds * 1_000, random: () => 1 })
  const left = [...script]
  const times: Array<number> = []
  let now = 0
  answers[call] = (right) => {
    times.push(now)
    return left.shift()?.(right) ?? right()
  }
  const ended: Array<unknown> = []
  const run = async () => ended.push(await (call === "login" ? client.login("oac_1") : client.version()))
  void run()
  // The platform derives a key in its own time.
  await expect.poll(() => times.length).toBe(1)
  while (ended.length === 0) {
    await setImmediate()
    now += 50
    await later(50)
  }
  return { times, result: ended[0] }
}

const limit = failed("rate_limited", undefined, { retryAfterSeconds: 7 })
const refused = failed("transport_failed", "refused")
const gone = () => Promise.reject(new TypeError("fetch failed", { cause: systemError("ECONNREFUSED") }))
const unavailable = failing("dependency_unavailable")

describe("Retries", () => {
  it.each<readonly [string, number, ReadonlyArray<Answer>, object, ReadonlyArray<number>]>([
    [
      "wait longer before each attempt, 5 s at most",
      30,
      Array(7).fill(unavailable),
      ok,
      [0, 250, 750, 1_750, 3_750, 7_750, 12_750, 17_750]
    ],
    ["are never sent before Retry-After", 30, [failing("rate_limited", 7)], ok, [0, 7_000]],
    ["end when a rate limit leaves less than a second", 7.9, [failing("rate_limited", 7)], limit, [0]],
    ["use that time after another failure", 7.9, [failing("overloaded", 7)], ok, [0, 7_000]],
    ["end when Retry-After is later", 30, [failing("overloaded", 60)], failed("overloaded"), [0]],
    ["end after 5 s when nothing listens", 30, Array(20).fill(gone), refused, [0, 250, 750, 1_750, 3_750]],
    ["end with the deadline", 30, [never, never], failed("timed_out"), [0, 10_250]],
    ["leave a later attempt 28 s", 60, [never, never], ok, [0, 10_250, 38_750]]
  ])("%s", async (_, seconds, script, result, times) => {
    expect(await play(seconds, script)).toMatchObject({ times, result })
  })

  it("name the last known failure when they end at the deadline", async () => {
    const { result } = await play(15, [unavailable, never])
    const last = { code: "dependency_unavailable", requestId: expect.stringMatching(/^daemon-/) }
    const message = expect.stringContaining("Ting is away.")
    expect(result).toMatchObject(failed("timed_out", undefined, { message, details: { last } }))
  })

  it.each(Object.keys(failureTable) as ReadonlyArray<FailureCode>)(
    "follow the service's table of failures: %s",
    async (code) => {
      const { result, times } = await play(2, [failing(code)])
      const { retryable, status } = failureTable[code]
      expect(times.length > 1).toBe(retryable)
      if (!retryable) expect(result).toMatchObject(failed(code, undefined, { status }))
    }
  )

  it("repeat an internal failure of a call with a derived key only", async () => {
    expect((await play(2, [failing("internal")], "login")).times).toEqual([0, 250])
  })
})

it("readyz and a flush of telemetry make one attempt", async () => {
  const { answers, calls, client } = makeClient({ telemetry: true })
  answers.readyz = failing("overloaded")
  answers.telemetry = failing("overloaded")
  client.telemetry.record("musicclidaemon", { type: "daemon.started" })
  for (const result of [await client.readyz(), await client.telemetry.flush()])
    expect(result).toMatchObject(failed("overloaded"))
  expect(calls()).toEqual(["readyz", "telemetry"])
})
