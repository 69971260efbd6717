/** Members of errors beside code, message and hint. */
import { describe, expect, it } from "vitest"
import { hintOf } from "../../../client/failures/ErrorTable.ts"
import { hasCode, isUnknownCode, type SessionStore } from "../../../client/index.ts"
import { type FailureCode, failureTable } from "../../../src/schema/FailureTable.ts"
import { startClient } from "../support/RecordingService.ts"
import { failure } from "../support/StubService.ts"
import { stretchTimers } from "../support/Timers.ts"

const mistake = new TypeError("the mock is broken")

describe("An error", () => {
  it("carries the state of the quotas", async () => {
    const { answers, client } = startClient()
    answers.version = () =>
      failure(429, "rate_limited", { "retry-after": "60", ratelimit: '"address";r=0;t=60' })
    expect(await client.version()).toMatchObject({
      ok: false,
      error: {
        retryAfterSeconds: 60,
        rateLimits: [{ policy: "address", remaining: 0, resetSeconds: 60 }]
      }
    })
  })

  describe("carries the error of a program's own fetch", () => {
    stretchTimers()

    it("but not in JSON", async () => {
      // The clock does not move, so no second attempt fits.
      const clock = { now: () => 0, monotonic: () => 0 }
      const fetch = () => Promise.reject(mistake)
      const sent = await startClient({ fetch, clock, deadlineMilliseconds: 100 }).client.version()
      expect(sent.error?.cause).toBe(mistake)
      expect(JSON.stringify(sent.error)).not.toContain("mock")
    })
  })

  it("carries the error of a program's own store", async () => {
    const sessionStore: SessionStore = {
      load: () => Promise.reject(mistake),
      save: () => Promise.reject(mistake),
      clear: () => Promise.reject(mistake)
    }
    const stored = await startClient({ sessionStore }).client.session()
    expect(stored.error).toMatchObject({ code: "store_failed" })
    expect(stored.error?.cause).toBe(mistake)
  })

  it("carries no cause that quotes a spoiled session", async () => {
    const sessionStore: SessionStore = {
      load: async () => JSON.parse('{"refresh_token":"ort_secret'),
      save: async () => undefined,
      clear: async () => undefined
    }
    const { error } = await startClient({ sessionStore }).client.session()
    expect(error).toMatchObject({ details: { reason: "corrupt" } })
    expect(error?.cause).toBeUndefined()
  })

  it("with a code of a later service is recognised", async () => {
    const { answers, client } = startClient()
    answers.version = () => failure(402, "payment_required")
    const { error } = await client.version()
    expect(error !== undefined && isUnknownCode(error) && error.message).toBe("m")
    answers.version = () => failure(404, "not_found")
    const known = (await client.version()).error
    expect(known !== undefined && !isUnknownCode(known) && hasCode(known, "not_found")).toBe(true)
  })
})

describe("The hint after a failure of the service", () => {
  /** Codes that no call of the client receives; their hints are for other callers. */
  const foreign = [
    "webhook_signature_invalid",
    "plane_mismatch",
    "method_not_allowed",
    "unsupported_media_type",
    // The service always names the limit of the call instead.
    "payload_too_large"
  ]
  const http = /\b(?:GET|POST|header|Retry-After|Authorization|Idempotency-Key|X-[A-Z])|\/api\/|openapi/

  it("speaks of the client's methods, not of HTTP", () => {
    // Iterating over our own constant: its keys are the codes.
    for (const code of Object.keys(failureTable) as ReadonlyArray<FailureCode>)
      if (!foreign.includes(code))
        expect(hintOf(code, failureTable[code].hint, { fields: [] })).not.toMatch(http)
    const organisation = { reason: "organization_not_granted" }
    expect(hintOf("forbidden", "Choose one in X-Org-ID.", organisation)).not.toMatch(http)
  })
})

describe("A store without promises", () => {
  it("is a store", async () => {
    const sessions = new Map<string, unknown>()
    const sessionStore = {
      load: (slot: string) => sessions.get(slot),
      save: (slot: string, session: unknown) => void sessions.set(slot, session),
      clear: (slot: string) => void sessions.delete(slot)
    } as unknown as SessionStore
    const { client } = startClient({ sessionStore })
    expect(await client.login("oac_1")).toMatchObject({ ok: true })
    expect(await client.me()).toMatchObject({ ok: true })
    expect(await client.logout()).toMatchObject({ ok: true })
    expect(sessions.size).toBe(0)
  })
})
