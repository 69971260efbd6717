/** Telemetry while the service is unavailable: one flush at a time, and pauses are kept. */
import { afterEach, describe, expect, it, vi } from "vitest"
import { createMusicClient } from "../../../client/index.ts"
import { failure, stubService } from "../support/StubService.ts"
import { waitFor } from "../../support/Waiting.ts"

afterEach(() => vi.useRealTimers())

const spoolFull = () => failure(503, "spool_full", { "retry-after": "30" })
const timersRun = () => new Promise((resolve) => setTimeout(resolve, 1))

/** A client under load whose service is unavailable, and the times of its posts. */
const loaded = () => {
  let away = true
  let now = 0
  let open: () => void = () => undefined
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  const posts: Array<number> = []
  const { fetch } = stubService({
    telemetry: async () => {
      posts.push(now)
      await opened
      return away ? spoolFull() : new Response(null, { status: 204 })
    }
  })
  const client = createMusicClient({
    baseUrl: "https://music.example",
    source: "daemon",
    telemetry: true,
    clock: { now: () => now, monotonic: () => now },
    fetch
  })
  return {
    client,
    posts,
    open: () => open(),
    mend: () => {
      away = false
    },
    pass: (milliseconds: number) => {
      now += milliseconds
    },
    record: () => client.telemetry.record("musicclidaemon", { type: "daemon.tick" })
  }
}

describe("Telemetry under load", () => {
  it("sends once and waits for the requested pause; a flush by the caller ignores the pause", async () => {
    const { client, mend, open, posts, record } = loaded()
    for (let count = 0; count < 60; count += 1) {
      record()
      // Time for every timer and fiber that this record may have started.
      await timersRun()
    }
    open()
    // Runs after all waiting flushes.
    expect(await client.telemetry.flush()).toMatchObject({ ok: false, error: { code: "spool_full" } })
    expect(posts).toHaveLength(2)
    for (let count = 0; count < 60; count += 1) record()
    await timersRun()
    expect(posts).toHaveLength(2)
    mend()
    expect(await client.telemetry.flush()).toMatchObject({ ok: true, value: { delivered: 120, dropped: 0 } })
    expect(posts).toHaveLength(5)
  })

  it("continues by itself after the pause", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    const { client, mend, open, pass, posts, record } = loaded()
    const later = async (milliseconds: number) => {
      pass(milliseconds)
      await vi.advanceTimersByTimeAsync(milliseconds)
    }
    open()
    for (let count = 0; count < 60; count += 1) record()
    await later(1)
    expect(posts).toEqual([1])
    for (let count = 0; count < 29; count += 1) {
      record()
      await later(1_000)
    }
    expect(posts).toEqual([1])
    await later(1_500)
    expect(posts).toHaveLength(2)
    mend()
    await later(31_000)
    await waitFor(() => expect(client.telemetry.stats()).toMatchObject({ queued: 0, delivered: 89 }))
    // A full batch is sent at once again, as before the outage.
    const sent = posts.length
    for (let count = 0; count < 40; count += 1) record()
    await later(1)
    expect(posts).toHaveLength(sent + 1)
  })

  it("is sent 10 s after the first event", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    const { mend, open, pass, posts, record } = loaded()
    mend()
    open()
    record()
    for (const [milliseconds, sent] of [
      [9_999, 0],
      [1, 1]
    ] as const) {
      pass(milliseconds)
      await vi.advanceTimersByTimeAsync(milliseconds)
      expect(posts).toHaveLength(sent)
    }
  })

  it("is sent after the caller aborted a flush", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    const { client, mend, open, pass, record } = loaded()
    mend()
    record()
    await client.telemetry.flush({ signal: AbortSignal.abort() })
    open()
    pass(10_000)
    await vi.advanceTimersByTimeAsync(10_000)
    await waitFor(() => expect(client.telemetry.stats()).toMatchObject({ queued: 0, delivered: 1 }))
  })

  it("waits an hour at most, whatever an intermediary asks for", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    let now = 0
    const posts: Array<number> = []
    const { fetch } = stubService({
      telemetry: () => {
        posts.push(now)
        return failure(429, "rate_limited", { "retry-after": "9999999" })
      }
    })
    const client = createMusicClient({
      baseUrl: "https://music.example",
      source: "daemon",
      telemetry: true,
      telemetryIntervalMilliseconds: 100,
      clock: { now: () => now, monotonic: () => now },
      fetch
    })
    const later = async (milliseconds: number) => {
      now += milliseconds
      await vi.advanceTimersByTimeAsync(milliseconds)
    }
    client.telemetry.record("musicclidaemon", { type: "daemon.tick" })
    await later(100)
    await later(3_599_000)
    expect(posts).toEqual([100])
    await later(1_000)
    expect(posts).toEqual([100, 3_600_100])
  })

  it("is given up at close, so that a request that hangs does not keep the process alive", async () => {
    let sent = false
    let aborted = false
    const { fetch } = stubService()
    const hanging: typeof fetch = (input, init) => {
      if (sent) return fetch(input, init)
      sent = true
      init?.signal?.addEventListener("abort", () => {
        aborted = true
      })
      return new Promise(() => undefined)
    }
    const client = createMusicClient({
      baseUrl: "https://music.example",
      source: "daemon",
      telemetry: true,
      telemetryIntervalMilliseconds: 1,
      fetch: hanging
    })
    client.telemetry.record("musicclidaemon", { type: "daemon.tick" })
    await waitFor(() => expect(sent).toBe(true))
    // The last flush sends the event again.
    expect(await client.close()).toEqual({ queued: 0, delivered: 1, dropped: 0 })
    expect(aborted).toBe(true)
  })
})
