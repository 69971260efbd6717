import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import * as TestClock from "effect/TestClock"
import { production } from "../../../src/layers/delivery/DeliveryLimits.ts"
import {
  isConfigurationRefusal,
  makeDestinationBreaker
} from "../../../src/layers/delivery/DestinationBreaker.ts"
import { StoreUnavailable } from "../../../src/services/Store.ts"
import { NotExecuted, Refused, Unknown } from "../../../src/services/UpstreamFailure.ts"
import { awaited } from "../../support/Waiting.ts"
import { freshPath, openStore } from "../store/Stores.ts"

const start = 10_000_000
const badCredentials = new Refused({ dependency: "tracker", status: 401, code: "bad_credentials" })
const lost = new Unknown({ dependency: "tracker", reason: "answer 502" })

const makeWorld = (bounds: Partial<typeof production> = {}) =>
  Effect.gen(function* () {
    yield* TestClock.setTime(start)
    const path = yield* freshPath
    const lines: Array<{ readonly level: string; readonly text: string }> = []
    const logger = Logger.make(({ logLevel, message }) => {
      lines.push({ level: logLevel.label, text: JSON.stringify(message) })
    })
    /** As another process, or this one after a restart, sees it. */
    const open = Effect.map(openStore(path), ({ destinations }) =>
      makeDestinationBreaker(
        destinations,
        { ...production, ...bounds },
        {
          name: "tracker",
          title: "The tracker",
          longestBackoff: 300_000,
          advice: Effect.succeed("set a new token")
        }
      )
    )
    const logged = <A, E>(effect: Effect.Effect<A, E>) =>
      effect.pipe(
        Effect.provide(Logger.replace(Logger.defaultLogger, logger)),
        Logger.withMinimumLogLevel(LogLevel.Info)
      )
    return { open, lines, logged }
  })

it("only a refusal of credentials, permission or address is a refusal of the settings", () => {
  const refusals = [301, 307, 400, 401, 403, 404, 410, 422, 451].map(
    (status) => new Refused({ dependency: "tracker", status, code: "refused" })
  )
  expect(refusals.filter(isConfigurationRefusal).map(({ status }) => status)).toEqual([
    301, 307, 401, 403, 404, 410
  ])
  expect(isConfigurationRefusal(lost)).toBe(false)
})

describe("A destination", () => {
  it.scoped("accepts one write a second from all processes together", function* () {
    const { open } = yield* makeWorld()
    const processes = [yield* open, yield* open]
    const times: Array<number> = []
    const write = (writes: number) => (index: number) =>
      Effect.gen(function* () {
        yield* processes[index % 2]?.reserveWrites(writes) ?? Effect.void
        times.push((yield* Clock.currentTimeMillis) - start)
      })
    const writing = yield* Effect.fork(
      Effect.forEach([0, 1, 2, 3], write(1), { concurrency: "unbounded", discard: true })
    )
    // The database has answered all of them: time may go on.
    yield* awaited("three waits", TestClock.sleeps(), (sleeps) => Chunk.size(sleeps) === 3)
    yield* TestClock.adjust("4 seconds")
    yield* Fiber.join(writing)
    expect(times).toEqual([0, 1_000, 2_000, 3_000])
    // Two writes in a row are booked at once.
    yield* write(2)(0)
    const last = yield* Effect.fork(write(1)(1))
    yield* awaited("a wait", TestClock.sleeps(), (sleeps) => Chunk.size(sleeps) === 1)
    yield* TestClock.adjust("2 seconds")
    yield* Fiber.join(last)
    expect(times.slice(4)).toEqual([4_000, 6_000])
  })

  it.scoped("has a pace of one write a second, and of 450 in any hour, 350 without priority", function* () {
    const { destinations } = yield* openStore(yield* freshPath)
    const paces: Array<unknown> = []
    const ordinary: Array<unknown> = []
    const { ordinaryPauseMillis, reserveWrites } = makeDestinationBreaker(
      {
        ...destinations,
        reserveWrite: (name, pace) => {
          paces.push(pace)
          return destinations.reserveWrite(name, pace)
        },
        writesFullUntil: (name, pace) => {
          ordinary.push(pace)
          return destinations.writesFullUntil(name, pace)
        }
      },
      production,
      { name: "tracker", title: "The tracker", longestBackoff: 300_000, advice: Effect.succeed("") }
    )
    yield* reserveWrites(1)
    expect(paces).toEqual([{ now: 0, spacing: 1_000, hourly: 450 }])
    expect(yield* ordinaryPauseMillis).toBe(0)
    expect(ordinary.at(-1)).toEqual({ now: 0, hourly: 350 })
  })

  it.scoped(
    "that refuses the settings is logged once with advice, and its recovery is logged once",
    function* () {
      const { lines, logged, open } = yield* makeWorld()
      const [one, other] = [yield* open, yield* open]
      expect(yield* logged(one.recordFailure(badCredentials))).toBe(300_000)
      yield* logged(other.recordFailure(badCredentials))
      yield* logged(one.recordFailure(lost))
      yield* logged(one.recordAnswer)
      const restarted = yield* open
      yield* logged(restarted.recordFailure(badCredentials))
      expect(lines.map(({ level }) => level)).toEqual(["ERROR"])
      expect(lines[0]?.text).toContain("401 bad_credentials")
      expect(lines[0]?.text).toContain("set a new token")
      for (const { isStopped } of [one, other, restarted]) expect(yield* isStopped).toBe(true)

      yield* logged(other.recordWrite)
      yield* logged(one.recordWrite)
      expect(lines.slice(1)).toEqual([{ level: "INFO", text: expect.stringContaining("available again") }])
      for (const { isStopped } of [one, other, restarted]) expect(yield* isStopped).toBe(false)
    }
  )

  it.scoped("whose hour of writes is used up is logged once before the wait and once after it", function* () {
    const { lines, logged, open } = yield* makeWorld({ hourlyWrites: 3 })
    const [one, other] = [yield* open, yield* open]
    for (const breaker of [one, other, one]) {
      const writing = yield* Effect.fork(logged(breaker.reserveWrites(1)))
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(writing)
    }
    expect(lines).toEqual([])
    const waiting = yield* Effect.fork(logged(other.reserveWrites(1)))
    yield* TestClock.adjust("30 minutes")
    const until = new Date(start + 3_600_000).toISOString()
    expect(lines).toEqual([
      { level: "WARN", text: expect.stringMatching(`used up.*"hourlyWrites":3,"pausedUntil":"${until}"`) }
    ])
    yield* TestClock.adjust("30 minutes")
    yield* Fiber.join(waiting)
    expect(lines.slice(1)).toEqual([{ level: "INFO", text: expect.stringContaining("takes writes again") }])
    // The next second of the pace is no pause.
    const next = yield* Effect.fork(logged(one.reserveWrites(1)))
    yield* TestClock.adjust("2 seconds")
    yield* Fiber.join(next)
    expect(lines.length).toBe(2)
  })

  it.scoped(
    "keeps a part of the hour's writes for deliveries with priority, which is logged once",
    function* () {
      const { lines, logged, open } = yield* makeWorld({ hourlyWrites: 4, ordinaryHourlyWrites: 2 })
      const [one, other] = [yield* open, yield* open]
      const write = (breaker: typeof one) =>
        Effect.gen(function* () {
          const writing = yield* Effect.fork(logged(breaker.reserveWrites(1)))
          yield* TestClock.adjust("1 second")
          yield* Fiber.join(writing)
        })
      yield* write(one)
      for (const breaker of [one, other]) expect(yield* breaker.ordinaryPauseMillis).toBe(0)
      yield* write(other)
      const until = new Date(start + 3_600_000).toISOString()
      const begin = {
        level: "WARN",
        text: expect.stringMatching(`only deliveries.*"ordinaryHourlyWrites":2,"pausedUntil":"${until}"`)
      }
      expect(lines).toEqual([begin])
      const restarted = yield* open
      for (const breaker of [one, other, restarted])
        expect(yield* breaker.ordinaryPauseMillis).toBe(3_600_000 - 2_000)
      // Each write of a delivery with priority is one of the hour too.
      yield* write(restarted)
      expect(yield* one.ordinaryPauseMillis).toBe(3_601_000 - 3_000)
      yield* TestClock.adjust("30 minutes")
      yield* write(other)
      expect(lines).toEqual([begin])
      yield* TestClock.setTime(start + 3_602_000)
      expect(yield* one.ordinaryPauseMillis).toBe(0)
      // The pause of the last two writes of the hour is another one.
      yield* write(one)
      expect(yield* other.ordinaryPauseMillis).toBeGreaterThan(1_700_000)
      expect(lines.slice(1)).toEqual([{ level: "WARN", text: expect.stringContaining("only deliveries") }])
    }
  )

  it.scoped(
    "logs the pause of deliveries without priority when a write makes a short one long, once",
    function* () {
      const { lines, logged, open } = yield* makeWorld({ hourlyWrites: 5, ordinaryHourlyWrites: 2 })
      const [one, other] = [yield* open, yield* open]
      yield* logged(one.reserveWrites(1))
      yield* TestClock.setTime(start + 3_570_000)
      yield* logged(one.reserveWrites(1))
      expect(yield* one.ordinaryPauseMillis).toBe(30_000)
      expect(lines).toEqual([])
      for (const [breaker, at] of [
        [other, 3_575_000],
        [one, 3_580_000]
      ] as const) {
        yield* TestClock.setTime(start + at)
        yield* logged(breaker.reserveWrites(1))
        expect(lines).toEqual([{ level: "WARN", text: expect.stringContaining("only deliveries") }])
      }
    }
  )

  it.scoped("reserves a write also when the state that the log needs cannot be read", function* () {
    const { destinations } = yield* openStore(yield* freshPath)
    const { reserveWrites } = makeDestinationBreaker(
      {
        ...destinations,
        writesFullUntil: () => Effect.fail(new StoreUnavailable({ problem: { kind: "unreachable" } }))
      },
      production,
      { name: "tracker", title: "The tracker", longestBackoff: 300_000, advice: Effect.succeed("") }
    )
    yield* reserveWrites(1).pipe(Effect.provide(Logger.remove(Logger.defaultLogger)))
    const next = yield* destinations.reserveWrite("tracker", { now: 0, spacing: 1_000, hourly: 450 })
    expect(next).toBe(1_000)
  })

  it.scoped("that asks for a long pause after it failed otherwise is logged once more", function* () {
    const { lines, logged, open } = yield* makeWorld()
    const [one, other] = [yield* open, yield* open]
    const limit = new NotExecuted({ dependency: "tracker", reason: "rate limit", retryAfterSeconds: 600 })
    yield* logged(one.recordFailure(lost))
    yield* logged(other.recordFailure(limit))
    yield* logged(one.recordFailure(limit))
    yield* logged(one.recordFailure(lost))
    const until = new Date(start + 600_000).toISOString()
    expect(lines.map(({ level }) => level)).toEqual(["WARN", "WARN"])
    expect(lines[1]?.text).toMatch(new RegExp(`asks for a pause.*"pausedUntil":"${until}"`))
  })

  it.scoped("pauses for all processes, for at least Retry-After and longer each time", function* () {
    const { logged, open } = yield* makeWorld()
    const [one, other] = [yield* open, yield* open]
    expect(yield* other.pauseMillis).toBe(0)
    const asked = new NotExecuted({ dependency: "tracker", reason: "rate limit", retryAfterSeconds: 90 })
    expect(yield* logged(one.recordFailure(asked))).toBe(90_000)
    expect(yield* other.pauseMillis).toBe(90_000)
    yield* TestClock.adjust("80 seconds")
    // A shorter one does not end it.
    const first = yield* logged(other.recordFailure(lost))
    expect(first).toBeLessThan(3_000)
    expect(yield* one.pauseMillis).toBe(10_000)
    const pauses = yield* Effect.forEach([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], () =>
      logged(one.recordFailure(lost))
    )
    expect(pauses[2]).toBeGreaterThan(10_000)
    expect(Math.max(...pauses)).toBeLessThanOrEqual(360_000)
    expect(yield* (yield* open).pauseMillis).toBeGreaterThan(200_000)
    // An answer resets the failures: the next failure counts as the first.
    yield* logged(other.recordAnswer)
    expect(yield* logged(one.recordFailure(lost))).toBeLessThan(1_500)
  })
})
