/** People who come back at their `Retry-After` log in, also behind the address of a host that invents credentials. */
import { describe, expect, it } from "vitest"
import { invent, type Invented, limitedByIam, servedWithin, sixVisits } from "./Inventors.ts"
import { openWorld, type World } from "./World.ts"

const minute = 60_000
/** By then the inventor holds all places of its share. */
const from = 1.5 * minute
const address = "203.0.113.1"

const playing = async <A>(play: (world: World) => Promise<A>): Promise<A> => {
  const world = await openWorld(1)
  try {
    return await play(world)
  } finally {
    await world.close()
  }
}

describe("Behind the address of an inventor", () => {
  const kinds: ReadonlyArray<readonly [Invented, boolean, number]> = [
    ["short-lived tokens", false, 1],
    ["short-lived tokens", false, 10],
    ["short-lived tokens", true, 1],
    ["refresh tokens", false, 1],
    ["refresh tokens", true, 1],
    ["access tokens", false, 1],
    ["access tokens", true, 1]
  ]
  for (const [kind, isPatient, perSecond] of kinds)
    it(`five of six people log in: ${perSecond} ${kind} a second, ${isPatient ? "each brought back on time" : "none brought back"}`, () =>
      playing(async (world) => {
        invent(world, { address: () => address, isPatient, kind, perSecond })
        const minutes = isPatient ? 4 : 2
        const people = sixVisits(world, "person-", () => address, from)
        await world.time.runUntil(from + (minutes + 0.25) * minute)
        expect(servedWithin(people, minutes)).toBeGreaterThanOrEqual(5)
        for (const seconds of people.flatMap(({ retryAfter }) => retryAfter)) {
          expect(seconds).toBeGreaterThanOrEqual(1)
          expect(seconds).toBeLessThanOrEqual(60)
        }
        expect(limitedByIam(world)).toBe(0)
      }))
})

describe("An inventor that uses many addresses of one /64", () => {
  it("is one address", () =>
    playing(async (world) => {
      let last = 0
      invent(world, {
        address: () => `2001:db8:7:7::${(++last).toString(16)}`,
        isPatient: false,
        perSecond: 4
      })
      const people = sixVisits(world, "person-", (index) => `2001:db8:7:7:1::${index + 1}`, from)
      await world.time.runUntil(from + 2.25 * minute)
      expect(servedWithin(people, 2)).toBeGreaterThanOrEqual(5)
    }))
})
