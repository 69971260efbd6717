/** The telemetry queue: what it accepts, when it sends, and what becomes of each event. */
import { afterEach, describe, expect, it, vi } from "vitest"
import type { ClientTable } from "../../client/index.ts"
import { gate, makeClient } from "./support/ClientWorld.ts"
import { failure, never } from "./support/Service.ts"

afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

type Batch = Readonly<{ table: string; events: ReadonlyArray<Record<string, unknown>> }>

const event = { type: "daemon.tick" }
const away = (seconds = "60") => failure(503, "spool_full", { "retry-after": seconds }, { retryable: true })

/** A client with telemetry, and the batches that it has sent. */
const start = (given: Parameters<typeof makeClient>[0] = {}) => {
  const world = makeClient({ telemetry: true, ...given })
  const { telemetry } = world.client
  return {
    ...world,
    telemetry,
    record: (count = 1, one: object = event, table: ClientTable = "musicclidaemon") =>
      Array.from({ length: count }, () => telemetry.record(table, one)),
    batches: () => world.requests.map(({ body }) => JSON.parse(body) as Batch),
    delivered: (count: number) => expect.poll(telemetry.stats).toMatchObject({ queued: 0, delivered: count })
  }
}

describe("Batches", () => {
  it("hold one table, 40 events and 64 KiB, and every event once and in order", async () => {
    const { batches, record, requests, telemetry } = start()
    const tables = ["musicclidaemon", "musicfrontendevents"] as const
    const all = Array.from({ length: 120 }, (_, count) => ({
      table: tables[count % 3 === 0 ? 0 : 1] ?? tables[0],
      data: `${count} ${"é".repeat(count % 7 === 0 ? 12_000 : 300)}`
    }))
    for (const { data, table } of all) record(1, { data }, table)
    await telemetry.flush()
    for (const { events } of batches()) expect(events.length).toBeLessThanOrEqual(40)
    for (const { body } of requests) expect(Buffer.byteLength(body)).toBeLessThanOrEqual(65_536)
    for (const name of tables) {
      const sent = batches().flatMap(({ events, table }) => (table === name ? events : []))
      const given = all.filter(({ table }) => table === name)
      expect(sent.map(({ data }) => data)).toEqual(given.map(({ data }) => data))
    }
  })

  it("hold no event that is too large for one: it is refused at once", () => {
    const tooLarge = { error: { code: "payload_too_large" } }
    expect(start().record(1, { data: "x".repeat(65_500) })[0]).toMatchObject(tooLarge)
  })
})

describe("An event", () => {
  it("gets an id and the time unless it has them, and is copied when it is recorded", async () => {
    const { batches, record, telemetry } = start()
    const metadata = { occurred_at: 5, more: true }
    const given = { id: "01990c6e-5f0a-4c1e-8d3b-000000000000", metadata, data: 1 }
    record(1, { type: "x" })
    record(1, given)
    given.data = 2
    await telemetry.flush()
    // Begins with the time: the service's index of ids grows at its end.
    const id = expect.stringMatching(/^01a3185c-5000-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    expect(batches()[0]?.events).toEqual([
      { type: "x", id, metadata: { occurred_at: "2027-01-15T08:00:00.000Z" } },
      { ...given, data: 1 }
    ])
  })

  const cycle: Record<string, unknown> = {}
  cycle.self = cycle
  const deep = JSON.parse(`${'{"in":'.repeat(70)}1${"}".repeat(70)}`)
  it.each<unknown>([
    ...[[], null, cycle, { data: 1n }, { data: "\ud800" }, { "\udc00": 1 }, { id: "7" }],
    ...[{ data: JSON.parse('{"__proto__":1}') }, { data: deep }]
  ])("that the service would refuse is refused at once, and so is one for an unknown table: %o", (wrong) => {
    const { telemetry } = start()
    const refused = { ok: false, error: { code: "invalid_input" } }
    expect(telemetry.record("musicclidaemon", wrong as object)).toMatchObject(refused)
    expect(telemetry.record("elsewhere" as "musicclidaemon", event)).toMatchObject(refused)
    expect(telemetry.stats().queued).toBe(0)
  })
})

describe("The queue", () => {
  it("is bounded by its limit, by 1,000 events and by 4 MiB; a refused and a left event are reported", async () => {
    const full = (one: object) =>
      start({ fetch: never })
        .record(1_200, one)
        .filter(({ ok }) => ok).length
    expect(full(event)).toBe(1_000)
    // With its id and its time, an event of 64,000 characters has more bytes: 65 fit into 4 MiB.
    expect(full({ type: "x".repeat(64_000) })).toBe(65)
    const { answers, client, events, record, telemetry } = start({ telemetryOptions: { queueLimit: 3 } })
    answers.telemetry = () => away()
    expect(record(4).map(({ error }) => error?.code)).toEqual([...Array(3), "queue_full"])
    const dropped = (count: number, reason: string) =>
      expect(events.at(-1)).toEqual({ type: "telemetry_dropped", events: count, reason })
    dropped(1, "full")
    expect(await telemetry.flush()).toMatchObject({ ok: false, error: { code: "spool_full" } })
    expect(await client.close()).toEqual({ queued: 0, delivered: 0, dropped: 4 })
    dropped(3, "closed")
    expect(record()[0]).toMatchObject({ value: { queued: false } })
    dropped(1, "closed")
  })

  it("drops only the events that the service names, and sends the others", async () => {
    const { batches, events, once, record, telemetry } = start()
    const details = { fields: [{ path: "events.1.data", problem: "must be better" }] }
    once("telemetry", () => failure(400, "invalid_input", {}, { details }))
    for (const type of ["a", "b", "c"]) record(1, { type })
    const value = { queued: 0, delivered: 2, dropped: 1 }
    expect(await telemetry.flush()).toMatchObject({ ok: true, value })
    expect(batches()[1]?.events.map(({ type }) => type)).toEqual(["a", "c"])
    const error = expect.objectContaining({ code: "invalid_input" })
    expect(events).toContainEqual({ type: "telemetry_dropped", events: 1, reason: "refused", error })
    // Without such a name the whole batch is dropped, after one request.
    once("telemetry", () => failure(400, "too_loud"))
    record()
    expect(await telemetry.flush()).toMatchObject({ ok: true, value: { queued: 0, dropped: 2 } })
  })

  it("does not keep the program alive", () => {
    const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length
    const { record } = start()
    const before = timers()
    record()
    expect(timers()).toBe(before)
  })
})

it.each([
  [{}, 10_000],
  [{ telemetryOptions: { intervalMilliseconds: 100 } }, 100]
])("Events are sent after their interval (%j), or at once when a batch is full", async (given, interval) => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
  const { delivered, later, record, requests } = start(given)
  record()
  await later(interval - 1)
  expect(requests).toHaveLength(0)
  await later(1)
  await delivered(1)
  record(40)
  await later(1)
  await delivered(41)
  expect(requests).toHaveLength(2)
})

it("The queue sends once at a time, waits for the requested pause under load, and continues by itself after it", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
  const { answers, delivered, later, record, requests } = start()
  const opened = gate<void>()
  answers.telemetry = async () => {
    await opened.opened
    return away("30")
  }
  record(60)
  await later(1)
  record(10)
  await later(60)
  expect(requests).toHaveLength(1)
  opened.open()
  await later(1)
  record(10)
  await later(29_000)
  expect(requests).toHaveLength(1)
  delete answers.telemetry
  await later(1_500)
  await delivered(80)
})

it("A hidden page sends its events once, no more than browsers allow in requests that outlive it; none after close", async () => {
  const page = new EventTarget()
  const document = Object.assign(new EventTarget(), { visibilityState: "hidden" })
  vi.stubGlobal("document", document)
  vi.stubGlobal("addEventListener", page.addEventListener.bind(page))
  vi.stubGlobal("removeEventListener", page.removeEventListener.bind(page))
  const { client, delivered, record, requests } = start({ source: "web" })
  for (const table of ["musicfrontendevents", "musicfrontendanalytics"] as const)
    record(39, { type: "x".repeat(800) }, table)
  document.dispatchEvent(new Event("visibilitychange"))
  page.dispatchEvent(new Event("pagehide"))
  await delivered(78)
  const last = requests.filter(({ init }) => init?.keepalive === true)
  const sum = last.reduce((total, { body }) => total + body.length, 0)
  expect(sum).toBeGreaterThan(55_000)
  expect(sum).toBeLessThanOrEqual(60_000)
  await client.close()
  const sent = requests.length
  record()
  page.dispatchEvent(new Event("pagehide"))
  expect(requests).toHaveLength(sent)
})

it("With telemetry off nothing is queued, and every call says so", async () => {
  const { client, record, requests, telemetry } = start({ telemetry: false })
  expect(record()[0]).toMatchObject({ ok: true, value: { queued: false } })
  expect(await telemetry.flush()).toMatchObject({ ok: true })
  await client.version()
  const sent = requests.map(({ call, headers }) => [call, headers.get("x-music-telemetry")])
  expect(sent).toEqual([["version", "off"]])
  expect(await client.close()).toEqual({ queued: 0, delivered: 0, dropped: 0 })
})

const failingOnce = () => {
  const failures = [() => Promise.reject(new Error("own fault"))]
  return () => failures.pop()?.() ?? {}
}
it.each<readonly [string, Parameters<typeof start>[0], Response | undefined]>([
  ["whose request hook fails once, so nothing is sent", { onRequest: failingOnce() }, undefined],
  ["that did not arrive in time", {}, failure(408, "request_timeout")]
])("Events stay in the queue after a batch %s", async (_, given, answer) => {
  const { events, once, record, telemetry } = start(given)
  if (answer !== undefined) once("telemetry", () => answer)
  record(2)
  expect((await telemetry.flush()).ok).toBe(false)
  expect(telemetry.stats()).toEqual({ queued: 2, delivered: 0, dropped: 0 })
  expect(await telemetry.flush()).toMatchObject({ ok: true, value: { queued: 0, delivered: 2 } })
  expect(events.filter(({ type }) => type === "telemetry_dropped")).toEqual([])
})
