/** A slice of `npm run prove:client`. */
import { expect, it } from "vitest"
import { prove } from "./prove/Prove.ts"

it("No failure of an answer, a process, a page, a disk or a clock costs a session", async () => {
  expect(await prove(40, 1)).toEqual([])
})
