import { expect } from "vitest"
import { type FailureCode, failureTable } from "../../src/schema/Failure.ts"
import { securityHeaders } from "../../src/schema/SecurityHeaders.ts"
import type { Answer } from "../world/Driver.ts"
import { errorOf } from "./support.ts"

/** The form of every error. */
export const expectEnvelope = (answer: Answer, status: number, code: string): void => {
  expect([answer.status, errorOf(answer).code]).toEqual([status, code])
  expect(answer.headers["content-type"]).toBe("application/json")
  expect(answer.headers["cache-control"]).toBe("no-store")
  expect(answer.headers).toMatchObject(securityHeaders)
  expect(answer.headers["x-request-id"]).toMatch(/^[A-Za-z0-9._-]{8,128}$/)
  expect(Object.keys(JSON.parse(answer.text))).toEqual(["error"])
  expect(errorOf(answer)).toMatchObject({
    message: expect.stringMatching(/\S/),
    hint: expect.stringMatching(/\S/),
    // An unknown code has no row.
    retryable: failureTable[code as FailureCode].retryable
  })
}
