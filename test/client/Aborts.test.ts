import { describe, expect, it } from "vitest"
import { startClient } from "./support/RecordingService.ts"

describe("A signal that was aborted before the call", () => {
  it("sends nothing and reports nothing", async () => {
    const { client, events, requests } = startClient()
    const signal = AbortSignal.abort()
    expect(await client.iam({ signal })).toMatchObject({
      ok: false,
      error: { code: "aborted", requestId: null }
    })
    expect([...requests, ...events]).toEqual([])
  })
})
