/** Calls with a random key: a failure that may have taken effect names the key, so that a repetition is done once. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest"
import type { MusicError, Result } from "../../client/index.ts"
import { json, type recordingService, startClient } from "./support/RecordingService.ts"
import { failure } from "./support/StubService.ts"

const draft = { message: "Playback stops after a seek." }
/** Milliseconds. */
const attempt = { attemptMilliseconds: 2_000 }

/** Never answers; the time of the attempt, and by the client's clock the deadline, pass as soon as the request has been sent. */
const silentFor = (service: { readonly pass: (milliseconds: number) => void }) => () => {
  setImmediate(() => {
    service.pass(60_000)
    vi.advanceTimersByTime(2_500)
  })
  return new Promise<Response>(() => undefined)
}
beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }))
afterEach(() => void vi.useRealTimers())
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
    const service = startClient(attempt)
    service.answers.reports = silentFor(service)
    const error = errorOf(await service.client.report(draft, { deadlineMilliseconds: 5_000 }))
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
      return new Promise<Response>(() => undefined)
    }
    const error = errorOf(await service.client.report(draft, { signal: controller.signal }))
    expect(error).toMatchObject({
      code: "aborted",
      requestId: service.requests[0]?.headers.get("x-request-id"),
      details: { idempotencyKey: keysOf(service)[0] }
    })
  })

  it("names it for raw calls and for the login of a test public id", async () => {
    const service = startClient({ ...attempt, testingKey: `ask_${"t".repeat(43)}` })
    service.answers.login = silentFor(service)
    service.answers.x = silentFor(service)
    const errors = [
      errorOf(await service.client.login("si:deejay", { deadlineMilliseconds: 5_000 })),
      errorOf(await service.client.request("POST", "/x", { session: "none", deadlineMilliseconds: 5_000 }))
    ]
    expect(errors.map(({ details }) => details?.idempotencyKey)).toEqual(keysOf(service))
  })

  it("does not name it when the service refused the call, nor a key that the caller has or that is derived", async () => {
    const service = startClient(attempt)
    service.answers.reports = () => failure(413, "payload_too_large")
    service.answers.login = silentFor(service)
    const short = { deadlineMilliseconds: 5_000 }
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
