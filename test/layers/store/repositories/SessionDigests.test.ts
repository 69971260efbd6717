import { assert } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import type { SessionDigests, StoredToken } from "../../../../src/services/Store.ts"
import { sampleEvent } from "../Samples.ts"
import { onBoth } from "../Stores.ts"

const first = { login: "first", actor: "ana" }
const second = { login: "second", actor: null }
const third = { login: "third", actor: "eva" }

const token = (digest: string, endsAt = 10_000, kind: StoredToken["kind"] = "access"): StoredToken => ({
  digest,
  endsAt,
  kind
})

const foundOf = ({ find }: SessionDigests, digests: ReadonlyArray<string>) =>
  Effect.map(Effect.forEach(digests, find), (logins) =>
    logins.map((login) => Option.getOrUndefined(Option.map(login, (found) => found.login)))
  )

onBoth("SessionDigests", ({ freshPath, freshStore, openStore, rawQuery }) => {
  it.scoped("finds the login of a token until it ends", function* () {
    const { sessionDigests } = yield* freshStore
    yield* TestClock.setTime(1_000)
    yield* sessionDigests.remember("production", first, [token("a"), token("b", 20_000, "refresh")])
    yield* sessionDigests.remember("env-1", second, [token("c")])
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
      yield* sessionDigests.remember("production", second, [token("a"), token("b", 20_000)])
      yield* sessionDigests.remember("production", { login: "other", actor: "ana" }, [
        token("a", 5_000),
        token("b", 30_000)
      ])
      yield* sessionDigests.remember("production", second, [token("b", 40_000)])
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

  it.scoped("forgets a token, a login, or the actors that a webhook names, and nothing else", function* () {
    const { sessionDigests, webhooks } = yield* freshStore
    const all = ["a", "b", "c", "d", "e"]
    yield* sessionDigests.remember("production", first, [token("a"), token("b")])
    yield* sessionDigests.remember("production", second, [token("c"), token("d")])
    yield* sessionDigests.remember("production", third, [token("e")])
    yield* sessionDigests.forgetToken("a")
    deepStrictEqual(yield* foundOf(sessionDigests, all), [undefined, "first", "second", "second", "third"])
    yield* sessionDigests.forgetLogin("first")
    deepStrictEqual(yield* foundOf(sessionDigests, all), [undefined, undefined, "second", "second", "third"])
    yield* sessionDigests.nameActor("second", "bob")
    deepStrictEqual(yield* sessionDigests.find("d"), Option.some({ login: "second", actor: "bob" }))
    const receive = (eventId: string, named: ReadonlyArray<string>) =>
      webhooks.receive(sampleEvent({ eventId }), [], named)
    yield* receive("names nobody", [])
    yield* receive("names others", ["ana", "nobody"])
    deepStrictEqual(yield* foundOf(sessionDigests, ["c", "d", "e"]), ["second", "second", "third"])
    yield* receive("names bob", ["someone", "bob"])
    deepStrictEqual(yield* foundOf(sessionDigests, ["c", "d", "e"]), [undefined, undefined, "third"])
    // A repetition has no effect.
    yield* sessionDigests.remember("production", { login: "second", actor: "bob" }, [token("c")])
    yield* receive("names bob", ["bob"])
    deepStrictEqual(yield* foundOf(sessionDigests, ["c"]), ["second"])
  })
})
