/** The telemetry queue: what it accepts, when it sends, and what becomes of each event. */
import * as FastCheck from "effect/FastCheck"
import { afterEach, describe, expect, it, vi } from "vitest"
import type { ClientTable } from "../../client/index.ts"
import { waitFor } from "../support/Waiting.ts"
import { failure, gate, makeClient, never } from "./support/ClientWorld.ts"

afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

const event = { type: "daemon.tick" }
const away = (seconds = "60", status = 503, code = "spool_full") =>
  failure(status, code, { "retry-after": seconds }, { retryable: true })
const lengthOf = (text: string) => new TextEncoder().encode(text).length

/** A client with telemetry, and the batches that it has sent. */
const start = (given: Parameters<typeof makeClient>[0] = {}) => {
  const world = makeClient({ telemetry: true, ...given })
  return {
    ...world,
    record: (count = 1, one: object = event, table: ClientTable = "musicclidaemon") =>
      Array.from({ length: count }, () => world.client.telemetry.record(table, one)),
    batches: () =>
      world.requests.map(
        ({ body }) => JSON.parse(body) as { table: string; events: Array<Record<string, unknown>> }
      )
  }
}

describe("Batches", () => {
  it("hold one table, 40 events and 64 KiB, and every event once and in order", async () => {
    const recorded = FastCheck.record({
      table: FastCheck.constantFrom<ClientTable[]>("musicclidaemon", "musicfrontendevents"),
      data: FastCheck.oneof(
        FastCheck.string({ unit: "grapheme", maxLength: 40 }),
        FastCheck.integer({ min: 0, max: 20_000 }).map((length) => "é".repeat(length))
      )
    })
    const property = FastCheck.asyncProperty(FastCheck.array(recorded, { maxLength: 120 }), async (all) => {
      const { batches, client, record, requests } = start()
      for (const { data, table } of all) record(1, { data }, table)
      await client.telemetry.flush()
      for (const { events } of batches()) expect(events.length).toBeLessThanOrEqual(40)
      for (const { body } of requests) expect(lengthOf(body)).toBeLessThanOrEqual(65_536)
      for (const name of ["musicclidaemon", "musicfrontendevents"]) {
        const sent = batches().flatMap(({ events, table }) =>
          table === name ? events.map(({ data }) => data) : []
        )
        expect(sent).toEqual(all.flatMap(({ data, table }) => (table === name ? [data] : [])))
      }
    })
    await FastCheck.assert(property, { numRuns: 40 })
  })

  it("fill up to the last byte, and an event that is one byte too large is refused at once", async () => {
    const { client, record, requests } = start()
    record(1, { data: "" })
    await client.telemetry.flush()
    const least = lengthOf(requests[0]?.body ?? "")
    expect(record(1, { data: "x".repeat(65_536 - least) })[0]?.ok).toBe(true)
    expect(record(1, { data: "x".repeat(65_537 - least) })[0]).toMatchObject({
      error: { code: "payload_too_large" }
    })
    await client.telemetry.flush()
    expect(lengthOf(requests[1]?.body ?? "")).toBe(65_536)
  })
})

describe("An event", () => {
  it("gets an id and the time unless it has them, and is copied when it is recorded", async () => {
    const { batches, client, record } = start()
    const given = {
      id: "01990c6e-5f0a-4c1e-8d3b-000000000000",
      metadata: { occurred_at: 5, more: true },
      data: 1
    }
    record(1, { type: "x" })
    record(1, given)
    given.data = 2
    await client.telemetry.flush()
    const id = expect.stringMatching(/^[0-9a-f-]{36}$/)
    const metadata = { occurred_at: "2027-01-15T08:00:00.000Z" }
    expect(batches()[0]?.events).toEqual([
      { type: "x", id, metadata },
      { ...given, data: 1 }
    ])
  })

  const cycle: Record<string, unknown> = {}
  cycle.self = cycle
  const deep = (levels: number): unknown => (levels === 0 ? 1 : { in: deep(levels - 1) })
  it.each<readonly [string, unknown]>([
    ["a list", []],
    ["a text", "event"],
    ["nothing", null],
    ["a cycle", cycle],
    ["a big integer", { data: 1n }],
    ["half a surrogate pair", { data: "\ud800" }],
    ["a name with half a pair", { "\udc00": 1 }],
    ["a forbidden name", { data: JSON.parse('{"__proto__":1}') }],
    ["too deep a nest", { data: deep(70) }],
    ["an id that is no UUID", { id: "7" }]
  ])("that is %s is refused at once, and so is one for an unknown table", async (_, wrong) => {
    const { client } = start()
    const refused = { ok: false, error: { code: "invalid_input" } }
    expect(client.telemetry.record("musicclidaemon", wrong as object)).toMatchObject(refused)
    expect(client.telemetry.record("elsewhere" as "musicclidaemon", event)).toMatchObject(refused)
    expect(client.telemetry.stats().queued).toBe(0)
  })
})

describe("The queue", () => {
  it("is bounded by its limit, by 1,000 events and by 4 MiB; a refused and a left event are reported", async () => {
    const full = (given: object, one: object) =>
      start({ fetch: never, ...given })
        .record(1_200, one)
        .filter(({ ok }) => ok).length
    expect(full({}, event)).toBe(1_000)
    // With its id and its time, an event of 64,000 characters has more bytes: 65 fit into 4 MiB.
    expect(full({}, { type: "x".repeat(64_000) })).toBe(65)
    const { answers, client, events, record } = start({ telemetryQueueLimit: 3 })
    answers.telemetry = () => away()
    expect(record(5).map(({ error }) => error?.code)).toEqual([...Array(3), "queue_full", "queue_full"])
    const dropped = () => events.filter(({ type }) => type === "telemetry_dropped")
    expect(dropped()).toEqual(Array(2).fill({ type: "telemetry_dropped", events: 1, reason: "full" }))
    expect(await client.telemetry.flush()).toMatchObject({ ok: false, error: { code: "spool_full" } })
    expect(await client.close()).toEqual({ queued: 0, delivered: 0, dropped: 5 })
    expect(dropped().at(-1)).toEqual({ type: "telemetry_dropped", events: 3, reason: "closed" })
    expect(record()[0]).toMatchObject({ value: { queued: false } })
    expect(dropped().at(-1)).toEqual({ type: "telemetry_dropped", events: 1, reason: "closed" })
  })

  it("drops only the events that the service names, and sends the others", async () => {
    const { batches, client, events, once, record } = start()
    const details = { fields: [{ path: "events.1.data", problem: "must be better" }] }
    once("telemetry", () => failure(400, "invalid_input", {}, { details }))
    for (const type of ["a", "b", "c"]) record(1, { type })
    const value = { queued: 0, delivered: 2, dropped: 1 }
    expect(await client.telemetry.flush()).toMatchObject({ ok: true, value })
    expect(batches()[1]?.events.map(({ type }) => type)).toEqual(["a", "c"])
    const error = expect.objectContaining({ code: "invalid_input" })
    expect(events).toContainEqual({ type: "telemetry_dropped", events: 1, reason: "refused", error })
  })

  it.each([
    ["invalid_input", { fields: [{ path: "events.99", problem: "is wrong" }] }],
    ["invalid_input", {}],
    ["too_loud", {}]
  ])("drops a batch that is refused with %s and %j, after one request", async (code, details) => {
    const { answers, calls, client, record } = start()
    answers.telemetry = () => failure(400, code, {}, { details })
    record()
    expect(await client.telemetry.flush()).toMatchObject({ ok: true, value: { queued: 0, dropped: 1 } })
    expect(calls()).toEqual(["telemetry"])
  })

  it("keeps what a later service calls retryable, or what is no answer", async () => {
    for (const answer of [
      () => failure(451, "legal_hold", {}, { retryable: true }),
      () => new Response("<html>"),
      () => Promise.reject(new TypeError("away"))
    ]) {
      const { answers, client, record } = start()
      answers.telemetry = answer
      record()
      expect(await client.telemetry.flush()).toMatchObject({ ok: false })
      expect(client.telemetry.stats()).toEqual({ queued: 1, delivered: 0, dropped: 0 })
      answers.telemetry = () => new Response(null, { status: 204 })
      expect(await client.close()).toEqual({ queued: 0, delivered: 1, dropped: 0 })
    }
  })

  it("does not keep the program alive", () => {
    const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length
    const { record } = start()
    const before = timers()
    record()
    expect(timers()).toBe(before)
  })
})

describe("The queue sends in the background", () => {
  /** Timers and the clock of the client move together. */
  const timed = (given: Parameters<typeof makeClient>[0] = {}) => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    const world = start(given)
    return {
      ...world,
      later: async (milliseconds: number) => {
        world.pass(milliseconds)
        await vi.advanceTimersByTimeAsync(milliseconds)
      }
    }
  }
  const delivered = (client: ReturnType<typeof start>["client"], count: number) =>
    waitFor(() => expect(client.telemetry.stats()).toMatchObject({ queued: 0, delivered: count }))

  it.each([
    [{}, 10_000],
    [{ telemetryIntervalMilliseconds: 100 }, 100]
  ])("after the first event's interval (%j), or at once when a batch is full", async (given, interval) => {
    const { client, later, record, requests } = timed(given)
    record()
    await later(interval - 1)
    expect(requests).toHaveLength(0)
    await later(1)
    await delivered(client, 1)
    record(40)
    await later(1)
    await delivered(client, 41)
    expect(requests).toHaveLength(2)
  })

  it("once at a time, waits for the requested pause under load, and continues by itself after it", async () => {
    const { answers, client, later, record, requests } = timed()
    const opened = gate<void>()
    answers.telemetry = async () => {
      await opened.opened
      return away("30")
    }
    for (let count = 0; count < 60; count += 1) {
      record()
      await later(1)
    }
    expect(requests).toHaveLength(1)
    opened.open()
    await later(1)
    for (let count = 0; count < 29; count += 1) {
      record()
      await later(1_000)
    }
    expect(requests).toHaveLength(1)
    await later(1_500)
    expect(requests).toHaveLength(2)
    delete answers.telemetry
    await later(31_000)
    await delivered(client, 89)
    // A full batch is sent at once again, as before the outage.
    const sent = requests.length
    record(40)
    await later(1)
    expect(requests).toHaveLength(sent + 1)
  })

  it("not in a pause, which a flush by the caller ignores", async () => {
    const { answers, client, later, record, requests } = timed()
    answers.telemetry = () => away("30")
    record(60)
    expect(await client.telemetry.flush()).toMatchObject({ ok: false, error: { code: "spool_full" } })
    record(60)
    const sent = requests.length
    await later(1)
    expect(requests).toHaveLength(sent)
    delete answers.telemetry
    expect(await client.telemetry.flush()).toMatchObject({ ok: true, value: { delivered: 120, dropped: 0 } })
  })

  it("after a pause of an hour at most, whatever an intermediary asks for", async () => {
    const { answers, later, record, requests } = timed()
    answers.telemetry = () => away("9999999", 429, "rate_limited")
    record()
    await later(10_000)
    await later(3_599_000)
    expect(requests).toHaveLength(1)
    await later(1_000)
    expect(requests).toHaveLength(2)
  })

  it("also after the caller aborted a flush", async () => {
    const { client, later, record } = timed()
    record()
    await client.telemetry.flush({ signal: AbortSignal.abort() })
    await later(10_000)
    await delivered(client, 1)
  })

  it("and gives up a request that hangs at close, whose event is sent again", async () => {
    const { client, later, once, record, requests } = timed()
    once("telemetry", never)
    record()
    await later(10_000)
    expect(requests).toHaveLength(1)
    expect(await client.close()).toEqual({ queued: 0, delivered: 1, dropped: 0 })
    expect(requests[0]?.init?.signal?.aborted).toBe(true)
  })
})

describe("A page", () => {
  it("sends its events when it is hidden, not again when it is left at that moment, and none after close", async () => {
    const page = new EventTarget()
    const document = Object.assign(new EventTarget(), { visibilityState: "visible" })
    vi.stubGlobal("document", document)
    vi.stubGlobal("addEventListener", page.addEventListener.bind(page))
    vi.stubGlobal("removeEventListener", page.removeEventListener.bind(page))
    const { calls, client, record } = start({ source: "web" })
    record(1, event, "musicfrontendevents")
    document.dispatchEvent(new Event("visibilitychange"))
    expect(calls()).toEqual([])
    document.visibilityState = "hidden"
    document.dispatchEvent(new Event("visibilitychange"))
    page.dispatchEvent(new Event("pagehide"))
    await waitFor(() => expect(client.telemetry.stats()).toMatchObject({ delivered: 1, queued: 0 }))
    await client.close()
    record(1, event, "musicfrontendevents")
    page.dispatchEvent(new Event("pagehide"))
    expect(calls()).toEqual(["telemetry"])
  })

  it("sends no more at its end than browsers allow, in requests that outlive it", async () => {
    const document = Object.assign(new EventTarget(), { visibilityState: "hidden" })
    vi.stubGlobal("document", document)
    const { record, requests } = start({ source: "web" })
    for (const table of ["musicfrontendevents", "musicfrontendanalytics"] as const)
      record(39, { type: "x".repeat(800) }, table)
    document.dispatchEvent(new Event("visibilitychange"))
    await waitFor(() => expect(requests.length).toBeGreaterThan(1))
    const last = requests.filter(({ init }) => init?.keepalive === true)
    const sum = last.reduce((total, { body }) => total + body.length, 0)
    expect(sum).toBeGreaterThan(55_000)
    expect(sum).toBeLessThanOrEqual(60_000)
  })
})

it("With telemetry off nothing is queued, and every call says so", async () => {
  const { client, record, requests } = start({ telemetry: false })
  expect(record()[0]).toMatchObject({ ok: true, value: { queued: false } })
  expect(await client.telemetry.flush()).toMatchObject({ ok: true })
  await client.version()
  expect(requests.map(({ call, headers }) => [call, headers.get("x-music-telemetry")])).toEqual([
    ["version", "off"]
  ])
  expect(await client.close()).toEqual({ queued: 0, delivered: 0, dropped: 0 })
})
