/** Each failure of `npm run prove:client` once. */
import { expect, it } from "vitest"
import { prove, variety } from "./prove/Prove.ts"

it("No failure of an answer, a process, a page, a disk or a clock costs a session", async () => {
  expect(await prove(variety, 1)).toEqual([])
})
