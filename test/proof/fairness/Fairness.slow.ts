/** The slice of the fairness suite that CI plays: scenarios with few clients and some minutes. */
import { expect, it } from "vitest"
import { serveInFlood, visitBeside } from "./Inventors.ts"
import { playScenario } from "./Play.ts"
import { scenarios } from "./Scenarios.ts"

it.each(scenarios)("every kind of client gets what its bounds say: $name", async (scenario) => {
  const { broken } = await playScenario(scenario, 1, { count: 150, isFull: false })
  expect(broken).toEqual([])
})

it.each([
  ["oat", false, 2],
  ["oac", false, 2],
  ["ort", true, 4]
] as const)(
  "five of six people log in behind an inventor of one %s a second, patient %s, within %i minutes",
  async (kind, isPatient, minutes) => {
    const address = () => "203.0.113.1"
    const inventor = { address, isPatient, kind, perSecond: 1 }
    const { refusedByIam, served, waits } = await visitBeside([inventor], [{ addressOf: address, minutes }])
    expect(served[0]).toBeGreaterThanOrEqual(5)
    expect(waits.filter((seconds) => !(seconds >= 1 && seconds <= 60))).toEqual([])
    expect(refusedByIam).toBe(0)
  }
)

it("Beside patient inventors at 40 addresses, people log in at other addresses and behind one of theirs", async () => {
  const address = (index: number): string => `198.51.100.${index}`
  const { refusedByIam, served } = await visitBeside(
    Array.from({ length: 40 }, (_, index) => ({
      address: () => address(index),
      isPatient: true,
      perSecond: 0.25
    })),
    [
      { addressOf: (index) => `192.0.2.${index}`, minutes: 2, enough: 5 },
      { addressOf: () => address(7), minutes: 4, enough: 2 }
    ]
  )
  expect([served.map((count) => count >= 2), Number(served[0]) >= 5, refusedByIam]).toEqual([
    [true, true],
    true,
    0
  ])
})

it("An inventor that uses many addresses of one /64 is one address", async () => {
  let last = 0
  const { served } = await visitBeside(
    [{ address: () => `2001:db8:7:7::${(++last).toString(16)}`, isPatient: false, perSecond: 4 }],
    [{ addressOf: (index) => `2001:db8:7:7:1::${index + 1}`, minutes: 2, enough: 5 }]
  )
  expect(served[0]).toBeGreaterThanOrEqual(5)
})

it.each([1, 2] as const)(
  "19 of 20 sessions are served by an instance that did not hand them out, in a flood of invented tokens: %i at first",
  async (size) => {
    const { refusedByIam, served } = await serveInFlood(size)
    expect([served >= 19, refusedByIam]).toEqual([true, 0])
  }
)
