/** Calls with a random key: a failure that may have taken effect names the key, so that a repetition is done once. */
import { describe, expect, it } from "vitest"
import type { MusicError, Result } from "../../client/index.ts"
import { json, type recordingService, startClient } from "./support/RecordingService.ts"
import { failure } from "./support/StubService.ts"

const draft = { message: "Playback stops after a seek." }
const silent = () => new Promise<Response>(() => undefined)
const stored = () =>
  json({ id: "rep_1", status: "stored", issue_url: null, reporter: null, created_at: "", replayed: true })

const errorOf = (result: Result<unknown>): MusicError => {
  if (result.ok) expect.unreachable()
  return result.error as MusicError
}
const keysOf = ({ requests }: ReturnType<typeof recordingService>) =>
  requests.map(({ headers }) => headers.get("idempotency-key"))

describe("A call with a random key", () => {
  it("names it when no answer arrives, and a repetition with it has the same key", async () => {
    const service = startClient()
    service.answers.reports = silent
    const error = errorOf(await service.client.report(draft, { deadlineMilliseconds: 30 }))
    const key = error.details?.idempotencyKey
    expect(error).toMatchObject({ code: "timed_out", hint: expect.stringContaining(`idempotencyKey ${key}`) })
    service.answers.reports = stored
    expect(await service.client.report(draft, { idempotencyKey: String(key) })).toMatchObject({ ok: true })
    expect(keysOf(service)).toEqual([key, key])
  })

  it("names it when the caller aborts, with the id of the request that was sent", async () => {
    const service = startClient()
    const controller = new AbortController()
    service.answers.reports = () => {
      controller.abort()
      return silent()
    }
    const error = errorOf(await service.client.report(draft, { signal: controller.signal }))
    expect(error).toMatchObject({
      code: "aborted",
      requestId: service.requests[0]?.headers.get("x-request-id"),
      details: { idempotencyKey: keysOf(service)[0] }
    })
  })

  it("names it for raw calls and for the login of a test public id", async () => {
    const service = startClient({ testingKey: `ask_${"t".repeat(43)}` })
    service.answers.login = silent
    service.answers.x = silent
    const errors = [
      errorOf(await service.client.login("si:deejay", { deadlineMilliseconds: 30 })),
      errorOf(await service.client.request("POST", "/x", { session: "none", deadlineMilliseconds: 30 }))
    ]
    expect(errors.map(({ details }) => details?.idempotencyKey)).toEqual(keysOf(service))
  })

  it("does not name it when the service refused the call, nor a key that the caller has or that is derived", async () => {
    const service = startClient()
    service.answers.reports = () => failure(413, "payload_too_large")
    service.answers.login = silent
    const short = { deadlineMilliseconds: 30 }
    const given = { idempotencyKey: "0123456789abcdef" }
    for (const result of [
      await service.client.report(draft),
      await service.client.report(draft, given),
      await service.client.login("oac_1", short),
      await service.client.request("POST", "/x", { ...given, body: 1, session: "required" })
    ])
      expect(errorOf(result).details?.idempotencyKey).toBeUndefined()
  })
})
