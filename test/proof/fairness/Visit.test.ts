import { it } from "vitest"
import { visitBeside } from "./Inventors.ts"
it.each([7, 9, 12, 23, 30, 35])("probe %i", async (at) => {
  const address = (index: number) => `203.0.113.${index + 1}`
  const inventors = Array.from({ length: 40 }, (_, index) => ({ address: () => address(index), isPatient: true }))
  const { served, refusedByIam } = await visitBeside(inventors, [
    { addressOf: (index) => `198.51.100.${index + 1}`, minutes: 2 },
    { addressOf: () => address(at), minutes: 4 }
  ])
  console.log(at, served, refusedByIam)
}, 300000)
