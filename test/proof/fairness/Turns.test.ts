/** People who come back at their `Retry-After` log in, also behind the address of a host that invents credentials. */
import { expect, it } from "vitest"
import { visitBeside } from "./Inventors.ts"

const address = () => "203.0.113.1"

it("five of six people log in behind an inventor of tokens", async () => {
  const inventor = { address, isPatient: false, kind: "oat", perSecond: 1 } as const
  const { refusedByIam, served, waits } = await visitBeside(
    [inventor],
    [{ addressOf: address, minutes: 2, enough: 5 }]
  )
  expect(served[0]).toBeGreaterThanOrEqual(5)
  expect(waits.filter((seconds) => !(seconds >= 1 && seconds <= 60))).toEqual([])
  expect(refusedByIam).toBe(0)
})

it("an inventor that uses many addresses of one /64 is one address", async () => {
  let last = 0
  const { served } = await visitBeside(
    [{ address: () => `2001:db8:7:7::${(++last).toString(16)}`, isPatient: false, perSecond: 4 }],
    [{ addressOf: (index) => `2001:db8:7:7:1::${index + 1}`, minutes: 2, enough: 5 }]
  )
  expect(served[0]).toBeGreaterThanOrEqual(5)
})
