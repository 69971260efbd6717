/** Sessions in a flood of invented tokens. */
import * as Effect from "effect/Effect"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import { minute, openSessionWorld, second, type Session } from "./SessionWorld.ts"

const people = 20

describe("In a flood of invented tokens from 100 addresses", () => {
  it.scopedLive("19 of 20 sessions are served and refreshed within a minute of a restart", function* () {
    const { complete, countServed, flood, limitedByIam, logIn, start, time } = yield* openSessionWorld({
      instances: 0
    })
    const before = start()
    const sessions: Array<Session> = []
    yield* complete(async () => {
      for (let at = 1; at <= people; at += 1) sessions.push(await logIn(before, at))
      await time.sleep(minute)
    })
    let instance = before
    flood(() => instance)
    // Within a minute of IAM, whose calls both processes make.
    yield* Effect.promise(() => time.runUntil(time.elapsed() + 20 * second))
    instance = start()
    yield* complete(before.close)
    expect(yield* complete(() => countServed(instance, sessions))).toBeGreaterThanOrEqual(19)
    expect(limitedByIam()).toBe(0)
  })

  it.scopedLive(
    "19 of 20 sessions are served and refreshed within a minute by another instance",
    function* () {
      const { complete, countServed, flood, instances, limitedByIam, logIn, send, time } =
        yield* openSessionWorld({
          instances: 2,
          settings: { iam: { callsPerMinute: 55 } }
        })
      const [one, other] = instances
      if (one === undefined || other === undefined) throw new Error("no instances")
      const sessions: Array<Session> = []
      yield* complete(async () => {
        for (let at = 1; at <= people; at += 1) {
          sessions.push(await logIn(one, at))
          await time.sleep(3 * second)
        }
        await time.sleep(minute)
      })
      // Each request goes to the next instance.
      flood(() => ({ ...one, send }))
      yield* Effect.promise(() => time.runUntil(time.elapsed() + minute))
      expect(yield* complete(() => countServed(other, sessions))).toBeGreaterThanOrEqual(19)
      expect(limitedByIam()).toBe(0)
    }
  )
})
