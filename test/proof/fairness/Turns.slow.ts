/** Patient inventors at 40 addresses, each of which brings every refused token back on time. */
import { expect, it } from "vitest"
import { invent, limitedByIam, servedWithin, sixVisits } from "./Inventors.ts"
import { openWorld } from "./World.ts"

const minute = 60_000
const from = 1.5 * minute
const addressAt = (index: number): string => `198.51.100.${index}`

it("Beside patient inventors at 40 addresses, people log in at other addresses and behind one of theirs", async () => {
  const world = await openWorld(1)
  try {
    for (let index = 0; index < 40; index += 1)
      invent(world, { address: () => addressAt(index), isPatient: true })
    const elsewhere = sixVisits(world, "elsewhere-", (index) => `192.0.2.${index}`, from)
    const behind = sixVisits(world, "behind-", () => addressAt(7), from)
    await world.time.runUntil(from + 4.25 * minute)
    expect(servedWithin(elsewhere, 2)).toBeGreaterThanOrEqual(5)
    expect(servedWithin(behind, 4)).toBeGreaterThanOrEqual(2)
    expect(limitedByIam(world)).toBe(0)
  } finally {
    await world.close()
  }
})
