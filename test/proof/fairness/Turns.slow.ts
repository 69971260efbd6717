/** Patient inventors at 40 addresses, each of which brings every refused token back on time. */
import { expect, it } from "vitest"
import { visitBeside } from "./Inventors.ts"

it("Beside patient inventors at 40 addresses, people log in at other addresses and behind one of theirs", async () => {
  const addressAt = (index: number): string => `198.51.100.${index}`
  const { refusedByIam, served } = await visitBeside(
    Array.from({ length: 40 }, (_, index) => ({ address: () => addressAt(index), isPatient: true })),
    [
      { addressOf: (index) => `192.0.2.${index}`, minutes: 2 },
      { addressOf: () => addressAt(7), minutes: 4 }
    ]
  )
  expect(served[0]).toBeGreaterThanOrEqual(5)
  expect(served[1]).toBeGreaterThanOrEqual(2)
  expect(refusedByIam).toBe(0)
})
