import { assert } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import { Effect, Option, TestClock } from "effect"
import type { SessionDigests, StoredToken } from "../../../../src/services/Store.ts"
import { sampleEvent } from "../Samples.ts"
import { onBoth } from "../Stores.ts"

const first = { login: "first", actor: "ana" }
const second = { login: "second", actor: null }

const token = (digest: string, endsAt = 10_000): StoredToken => ({ digest, endsAt })

const foundOf = ({ find }: SessionDigests, digests: ReadonlyArray<string>) =>
  Effect.map(Effect.forEach(digests, find), (logins) =>
    logins.map((login) => Option.getOrUndefined(Option.map(login, (found) => found.login)))
  )

onBoth("SessionDigests", ({ freshPath, freshStore, openStore, rawQuery }) => {
  it.scoped("finds the login of a token until it ends", function* () {
    const { sessionDigests } = yield* freshStore
    yield* TestClock.setTime(1_000)
    yield* sessionDigests.remember(first, [token("a"), token("b", 20_000)])
    yield* sessionDigests.remember(second, [token("c")])
    deepStrictEqual(yield* sessionDigests.find("a"), Option.some(first))
    deepStrictEqual(yield* sessionDigests.find("c"), Option.some(second))
    deepStrictEqual(yield* sessionDigests.find("stranger"), Option.none())
    yield* TestClock.setTime(9_999)
    deepStrictEqual(yield* foundOf(sessionDigests, ["a", "b"]), ["first", "first"])
    for (const later of [10_000, 10_001]) {
      yield* TestClock.setTime(later)
      deepStrictEqual(yield* foundOf(sessionDigests, ["a", "b"]), [undefined, "first"])
    }
  })

  it.scoped(
    "a token that is stored again keeps its login and its earlier end, and gets the actor",
    function* () {
      const place = yield* freshPath
      const { sessionDigests } = yield* openStore(place)
      yield* sessionDigests.remember(second, [token("a"), token("b", 20_000)])
      yield* sessionDigests.remember({ login: "other", actor: "ana" }, [
        token("a", 5_000),
        token("b", 30_000)
      ])
      yield* sessionDigests.remember(second, [token("b", 40_000)])
      const rows = yield* rawQuery(
        place,
        "SELECT digest, login, actor, ends_at FROM session_digests ORDER BY digest"
      )
      assert.deepStrictEqual<ReadonlyArray<unknown>>(rows, [
        { digest: "a", login: "second", actor: "ana", ends_at: 5_000 },
        { digest: "b", login: "second", actor: "ana", ends_at: 20_000 }
      ])
    }
  )

  // What forgets others: test/faults/StoredSessions.test.ts.
  it.scoped("forgets the actors that a webhook names, once", function* () {
    const { sessionDigests, webhooks } = yield* freshStore
    yield* sessionDigests.remember({ ...second, actor: "bob" }, [token("a"), token("b")])
    const expected = { others: ["second", "second"], bob: [undefined, undefined] }
    for (const [actor, logins] of Object.entries(expected)) {
      yield* webhooks.receive(sampleEvent({ eventId: actor }), [], ["someone", actor])
      deepStrictEqual(yield* foundOf(sessionDigests, ["a", "b"]), logins)
    }
    yield* sessionDigests.remember({ ...second, actor: "bob" }, [token("a")])
    yield* webhooks.receive(sampleEvent({ eventId: "bob" }), [], ["bob"])
    deepStrictEqual(yield* foundOf(sessionDigests, ["a"]), ["second"])
  })
})
