import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as FastCheck from "effect/FastCheck"
import { makePlaces, type Place } from "../../../../src/layers/iam/budget/Places.ts"
import { type Share, shares } from "../../../../src/layers/iam/budget/Shares.ts"

const placeOf = (share: Share, key: string | undefined): Place => ({
  window: "production /oauth/introspect",
  key,
  owner: key,
  share,
  freeAt: Number.POSITIVE_INFINITY,
  ownUntil: Number.POSITIVE_INFINITY,
  reserved: false,
  takenAt: 0
})

describe("The places of a window", () => {
  it("are counted as a search through all of them would count", () => {
    const keys = [undefined, "one", "two"]
    FastCheck.assert(
      FastCheck.property(
        FastCheck.array(
          FastCheck.record({
            act: FastCheck.constantFrom("take", "take", "end", "end", "take again", "remove"),
            pause: FastCheck.integer({ min: 0, max: 30_000 }),
            share: FastCheck.constantFrom(...shares),
            key: FastCheck.constantFrom(...keys),
            pick: FastCheck.nat(1_000)
          }),
          { maxLength: 200 }
        ),
        (steps) => {
          const places = makePlaces()
          let expected: Array<Place> = []
          let now = 0
          for (const { act, key, pause, pick, share } of steps) {
            now += pause
            places.removeExpired(now)
            expected = expected.filter(({ freeAt }) => freeAt > now)
            const picked = expected[pick % Math.max(1, expected.length)]
            if (act === "take") {
              const place = placeOf(share, key)
              places.add(place)
              expected.push(place)
            } else if (picked === undefined) continue
            else if (act === "end") places.endAt(picked, now + 60_000)
            else if (act === "take again") picked.freeAt = Number.POSITIVE_INFINITY
            else {
              places.remove(picked)
              expected = expected.filter((place) => place !== picked)
            }
            deepStrictEqual([...places.all()], expected)
            assert.strictEqual(places.size(), expected.length)
            for (const held of shares)
              assert.strictEqual(places.heldBy(held), expected.filter((place) => place.share === held).length)
            for (const owner of ["one", "two"])
              assert.strictEqual(
                places.countOfOwner(owner),
                expected.filter((place) => place.owner === owner).length
              )
            for (const own of ["one", "two"])
              deepStrictEqual(
                [...places.ofKey(own)],
                expected.filter((place) => place.key === own)
              )
          }
        }
      ),
      { numRuns: 200 }
    )
  })
})
