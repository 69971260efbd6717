/** Sessions in a flood of invented tokens from 100 addresses: 19 of 20 are served and refreshed within a minute. */
import * as Effect from "effect/Effect"
import { expect } from "vitest"
import { postgres } from "../layers/store/Stores.ts"
import { it } from "../world/Test.ts"
import { minute, openSessionWorld, second, type Session } from "./SessionWorld.ts"

it.scopedLive.each([
  { place: "after a restart", size: 1, pause: 0, flooded: 20 * second },
  // Only Postgres serves two.
  { place: "by another instance", size: 2, pause: 3 * second, flooded: minute }
])("19 of 20 sessions are served $place", function* ({ flooded, pause, size }) {
  const world = yield* openSessionWorld({
    instances: size,
    ...(size === 1 ? {} : { postgres: yield* postgres.freshPath }),
    settings: { iam: { callsPerMinute: 110 / size } }
  })
  const { complete, countServed, flood, instances, limitedByIam, logIn, send, start, time } = world
  const [first, second] = instances
  if (first === undefined) throw new Error("no instance")
  const sessions: Array<Session> = []
  yield* complete(async () => {
    for (let at = 1; at <= 20; at += 1) {
      sessions.push(await logIn(first, at))
      await time.sleep(pause)
    }
    await time.sleep(minute)
  })
  let current: Pick<typeof first, "send"> = second === undefined ? first : { send }
  flood(() => current)
  // Within a minute of IAM, whose calls both processes make.
  yield* Effect.promise(() => time.runUntil(time.elapsed() + flooded))
  const other = second ?? start()
  if (second === undefined) {
    current = other
    yield* complete(first.close)
  }
  expect(yield* complete(() => countServed(other, sessions))).toBeGreaterThanOrEqual(19)
  expect(limitedByIam()).toBe(0)
})
