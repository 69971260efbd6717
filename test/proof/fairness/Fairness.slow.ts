/** The slice of the fairness suite that CI plays: scenarios with few clients and some minutes. */
import { expect, it } from "vitest"
import { visitBeside } from "./Inventors.ts"
import { playScenario } from "./Play.ts"
import { scenarios } from "./Scenarios.ts"

// The last one puts the kinds of clients of the others together: `npm run proof -- fairness` plays it.
const slice = scenarios.filter(({ name }) => name !== "all of them at once")

it.each(slice)("every kind of client gets what its bounds say: $name", async (scenario) => {
  const { broken } = await playScenario(scenario, 1, { count: 150, isFull: false })
  expect(broken).toEqual([])
})

it("Beside patient inventors at 40 addresses, people log in at other addresses and behind one of theirs", async () => {
  const address = (index: number): string => `198.51.100.${index}`
  const { refusedByIam, served } = await visitBeside(
    Array.from({ length: 40 }, (_, index) => ({
      address: () => address(index),
      isPatient: true,
      perSecond: 0.25
    })),
    [
      { addressOf: (index) => `192.0.2.${index}`, minutes: 2 },
      { addressOf: () => address(7), minutes: 4 }
    ]
  )
  expect([served.map((count) => count >= 2), Number(served[0]) >= 5, refusedByIam]).toEqual([
    [true, true],
    true,
    0
  ])
})
