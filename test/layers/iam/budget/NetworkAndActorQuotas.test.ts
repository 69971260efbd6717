/** The refreshes of one actor, divided among its logins. */
import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import { makeNetworkAndActorQuotas } from "../../../../src/layers/iam/budget/NetworkAndActorQuotas.ts"

const second = 1_000
const minute = 60 * second

const actorOf = (callsPerMinute = 110) => {
  const { take } = makeNetworkAndActorQuotas(
    { callsPerMinute, countAddresses: true },
    {
      budgetKey: (token) => token.split("/")[0] ?? token,
      ownerOf: () => "production c:eve"
    }
  )
  let tokens = 0
  /** Each refresh of a login presents another token. */
  const use = (login: string, now: number) =>
    take(
      { plane: "production", path: "/app-auth/tokens" },
      { credential: `${login}/${++tokens}`, use: "refresh" },
      "",
      now
    )
  /** Seconds to wait; 0 when the refresh is admitted. */
  const refresh = (login: string, now: number): number => use(login, now).retryAfterSeconds
  /** Refreshes that are admitted at once. */
  const admitted = (login: string, now: number): number => {
    let count = 0
    while (count < 100 && refresh(login, now) === 0) count += 1
    return count
  }
  return { use, refresh, admitted }
}

describe("A login of an actor", () => {
  for (const count of [1, 3, 4, 10, 30])
    it(`refreshes within a minute, once in 29 minutes, beside ${count} that refresh as often as they may`, () => {
      const { refresh } = actorOf()
      const waits: Array<number> = []
      const quiet = Array.from({ length: 5 }, (_, at) => ({ name: `quiet ${at}`, from: at * 5, due: at * 5 }))
      let frequent = 0
      const until = 3_600
      for (let now = 0; now < until; now += 1) {
        for (let at = 0; at < count; at += 1) if (refresh(`frequent ${at}`, now * second) === 0) frequent += 1
        for (const login of quiet) {
          if (login.due > now) continue
          const wait = refresh(login.name, now * second)
          login.due = now + wait
          if (wait > 0) continue
          waits.push(now - login.from)
          login.from += 29 * 60
          login.due = login.from
        }
      }
      assert.strictEqual(waits.length, 15)
      assert.isAtMost(Math.max(...waits), 60)
      // The rest of the quota is theirs: 10 a minute.
      assert.isAtLeast(frequent + waits.length, (10 * until) / 60)
    })

  it("leaves 5 of the 30 to logins with fewer for each of its last four refreshes", () => {
    const { admitted } = actorOf()
    deepStrictEqual(
      Array.from({ length: 12 }, (_, at) => admitted(`login ${at}`, 0)),
      [10, 4, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1]
    )
  })

  it("gets the seconds until so many are left, and has a refresh forgotten every 5 minutes", () => {
    const { admitted, refresh } = actorOf()
    assert.strictEqual(admitted("often", 0), 10)
    assert.strictEqual(refresh("often", 0), 6)
    assert.strictEqual(refresh("once", 0), 0)
    assert.strictEqual(refresh("often", 0), 12)
    assert.strictEqual(refresh("often", 12 * second), 0)
    for (let other = 0; other < 20; other += 1) assert.strictEqual(refresh(`other ${other}`, 5 * minute), 0)
    // 10 are left: with three counted it leaves 15.
    assert.strictEqual(refresh("often", 5 * minute), 36)
  })

  it("has as many counted as before after one that is given back", () => {
    const { admitted, use } = actorOf()
    assert.strictEqual(admitted("often", 0), 10)
    use("often", 6 * second).giveBack()
    use("other", 6 * second).giveBack()
    // 21 are left, then 17: with three counted the login would have two of them.
    assert.strictEqual(admitted("other", 6 * second), 4)
    assert.strictEqual(admitted("often", 6 * second), 0)
  })

  it("can refresh again and again with the smallest budget", () => {
    const { admitted } = actorOf(10)
    deepStrictEqual([admitted("one", 0), admitted("other", 0), admitted("one", 3 * minute)], [2, 1, 2])
  })
})
