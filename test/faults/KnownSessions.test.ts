/** Sessions in a flood of invented tokens. */
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { postgres, sqlite } from "../layers/store/Stores.ts"
import { minute, openSessionWorld, second, type Session } from "./SessionWorld.ts"

const people = 20

describe("In a flood of invented tokens from 100 addresses", () => {
  it.scopedLive("19 of 20 sessions are served and refreshed within a minute of a restart", function* () {
    const { complete, countServed, flood, limitedByIam, logIn, open, time } = yield* openSessionWorld(sqlite)
    const before = yield* open()
    const sessions: Array<Session> = []
    yield* complete(async () => {
      for (let at = 1; at <= people; at += 1) sessions.push(await logIn(before.send, at))
      await time.sleep(minute)
    })
    let send = before.send
    flood(() => send)
    // Within a minute of IAM, whose calls both processes make.
    yield* Effect.promise(() => time.runUntil(time.elapsed() + 20 * second))
    yield* Effect.promise(before.close)
    const after = yield* open()
    send = after.send
    expect(yield* complete(() => countServed(() => after.send, sessions))).toBeGreaterThanOrEqual(19)
    expect(limitedByIam()).toBe(0)
  })

  it.scopedLive(
    "19 of 20 sessions are served and refreshed within a minute by another instance",
    function* () {
      const world = openSessionWorld(postgres, { settings: { iam: { callsPerMinute: 55 } } })
      const { complete, countServed, flood, limitedByIam, logIn, open, time } = yield* world
      const one = yield* open()
      const other = yield* open()
      const sessions: Array<Session> = []
      yield* complete(async () => {
        for (let at = 1; at <= people; at += 1) {
          sessions.push(await logIn(one.send, at))
          await time.sleep(3 * second)
        }
        await time.sleep(minute)
      })
      let turn = 0
      flood(() => {
        turn += 1
        return turn % 2 === 0 ? one.send : other.send
      })
      yield* Effect.promise(() => time.runUntil(time.elapsed() + minute))
      expect(yield* complete(() => countServed(() => other.send, sessions))).toBeGreaterThanOrEqual(19)
      expect(limitedByIam()).toBe(0)
    }
  )
})
