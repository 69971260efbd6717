/** Removing reports, one or by filter, beside a running server. */
import { existsSync, readFileSync } from "node:fs"
import { expect } from "vitest"
import { it } from "../world/Test.ts"
import { Effect, Fiber, Option } from "effect"
import { Anonymous, DeliveryUpdate, type Reporter, Unverified, Verified } from "../../src/services/Store.ts"
import { sampleLease, sampleReport } from "../layers/store/Samples.ts"
import { onBoth, postgres, withPgClient } from "../layers/store/Stores.ts"
import { awaited } from "../world/Waiting.ts"
import { environmentOf, run } from "./Harness.ts"

const hour = 3_600_000
const secret = "Anna Person, 7 Harbor Street"
const issue = { number: 57, url: "https://github.com/harbor/music/issues/57" }
const anna = Verified({ publicId: "c:anna-person" })
const filed = () =>
  DeliveryUpdate.Delivered({ at: Date.now(), issue: Option.some(issue), sweepAt: Option.none() })

const personal = (id: string, reporter: Reporter = anna) =>
  sampleReport({
    id,
    keyDigest: `key of ${id}`,
    createdAt: Date.now() - 60_000,
    reporter,
    content: {
      message: `My address is ${secret}.`,
      pr: null,
      // Large enough for pages of its own.
      attachments: [{ name: "a.log", content: `${secret} `.repeat(2_000) }],
      context: null
    }
  })

/** A report of `flood`, as the bound counts it. */
const bytesEach = 3_056

/** Id, reporter, hours of age. Those of one age were sent under one key with the same content. */
type Row = readonly [id: string, reporter: Reporter, age: number]
const flood: ReadonlyArray<Row> = [
  ["rep_a1", Anonymous(), 1],
  ["rep_a2", Anonymous(), 30],
  ["rep_u1", Unverified(), 2],
  ["rep_v1", Verified({ publicId: "c:ana" }), 1],
  ["rep_v2", Verified({ publicId: "c:ana" }), 30],
  ["rep_v3", Verified({ publicId: "c:eva" }), 1]
]

const plain = (id: string, reporter: Reporter, age: number) =>
  sampleReport({
    id,
    keyDigest: `key of ${age}`,
    reporter,
    createdAt: Date.now() - age * hour,
    content: { message: "x".repeat(2_000), pr: null, attachments: [], context: null },
    ...(reporter._tag === "Verified" ? {} : { network: "a" })
  })

onBoth("Removing reports", (kind) => {
  const { freshPath, name, openStore, rawQuery } = kind
  const isSqlite = name === "SQLite"

  const opened = (rows: ReadonlyArray<Row>) =>
    Effect.gen(function* () {
      const place = yield* freshPath
      const store = yield* openStore(place)
      for (const [id, reporter, age] of rows) yield* store.reports.admit(plain(id, reporter, age), true)
      /** `reason` is put behind `--reason`. */
      const command = (line: string, reason?: string) =>
        run(
          [...line.split(" "), ...(reason === undefined ? [] : ["--reason", reason])],
          environmentOf(kind, place)
        )
      const left = Effect.map(
        rawQuery(place, "SELECT id FROM reports WHERE removed_at IS NULL ORDER BY id"),
        (found) => found.map(({ id }) => id)
      )
      const { lease, update } = store.deliveries
      /** Leases the one delivery that is due, and sends it with this end, or with none. */
      const send = (end?: DeliveryUpdate) =>
        Effect.gen(function* () {
          const held = Option.getOrThrow(
            yield* lease(sampleLease({ now: Date.now(), leaseUntil: Date.now() + hour }))
          )
          yield* update(held, DeliveryUpdate.Sending({ at: Date.now() }))
          if (end !== undefined) yield* update(held, end)
          return held
        })
      return { place, store, command, left, send }
    })

  it.scopedLive("deletes content and reporter; a repetition is neither stored nor filed", function* () {
    const { command, place, store } = yield* opened([])
    const { deliveries, reports } = store
    yield* reports.admit(personal("rep_1"), true)
    const removed = yield* command("reports remove rep_1", "request 12")
    expect(removed).toMatchObject({ exit: 0, err: "" })
    expect(removed.out).not.toContain("remains")
    // It stays as long as the report of a verified reporter.
    expect(yield* store.retention.anonymousReports(Date.now())).toBe(0)

    // The old answer, to the same person and to readers whom IAM did not verify; their names do not come back. The key stays bound.
    for (const reporter of [anna, Unverified(), Anonymous()]) {
      const again = { ...personal("rep_2", reporter), keyDigest: "key of rep_1" }
      expect(yield* reports.admit(again, true)).toMatchObject({ _tag: "Replayed", report: { id: "rep_1" } })
      const other = yield* reports.admit({ ...again, contentDigest: "other" }, true)
      expect(other._tag).toBe("Conflict")
    }
    const shown = yield* command("reports show rep_1 --json")
    const nameless = { id: "rep_1", reporter: null, request_id: null, removed: { reason: "request 12" } }
    expect(shown.json).toMatchObject({ ...nameless, message: null, attachments: [] })
    const exported = yield* command("reports export")
    expect(exported.json).toMatchObject({ ...nameless, message: null, attachments: [] })
    const listed = yield* command("reports list")
    expect(listed.out).toMatch(/removed: request 12$/)
    for (const { out } of [removed, shown, exported, listed]) expect(out).not.toMatch(/Anna|anna/)

    // Nothing is filed, not even by a retry.
    for (const line of ["reports retry rep_1", "deliveries retry report:rep_1"])
      expect((yield* command(line)).exit).toBe(1)
    expect(yield* deliveries.lease({ ...sampleLease(), now: Date.now() + 24 * hour })).toEqual(Option.none())
    expect(yield* deliveries.counts).toEqual([{ kind: "report", state: "discarded", count: 1 }])
    const twice = yield* command("reports remove rep_1", "again")
    expect([twice.exit, twice.err]).toEqual([1, expect.stringMatching(/removed at \S+Z: request 12\./)])

    expect(yield* reports.storedBytes).toBe(0)
    if (isSqlite)
      for (const file of [place, `${place}-wal`])
        expect([file, existsSync(file) && readFileSync(file).includes(secret)]).toEqual([file, false])
  })

  it.scopedLive("names what remains in the tracker: an issue, or what is searched for", function* () {
    const { command, send, store } = yield* opened([])
    const lost = DeliveryUpdate.Unknown({ availableAt: Date.now(), failure: "lost", searches: 0 })
    for (const [id, ends, remains] of [
      ["rep_filed", [filed()], `the issue ${issue.url}: delete it in the tracker`],
      // The issue may exist, and is found by the reference in its text.
      ["rep_lost", [lost], "perhaps an issue: search"],
      // The list of the tracker may still hide another issue, which only the search for duplicates finds and which nobody deletes.
      ["rep_twice", [lost, filed()], `the issue ${issue.url}, and perhaps others: search`]
    ] as const) {
      const report = personal(id)
      yield* store.reports.admit(report, true)
      for (const end of ends) yield* send(end)
      const { json } = yield* command(`reports remove ${id} --json`, "request 12")
      const search = remains.endsWith("search") ? ` the tracker for ${id}-${report.marker}, and delete` : ""
      const text = expect.stringContaining(remains + search)
      expect(json).toMatchObject({ remains: [{ id, remains: text }] })
    }
    const shown = { status: "filed", issue, delivery: { state: "delivered" } }
    expect((yield* command("reports show rep_filed --json")).json).toMatchObject(shown)

    // Never sent by this delivery, but perhaps by one that retention has deleted.
    yield* store.reports.admit(personal("rep_4"), false)
    expect((yield* command("reports retry rep_4")).exit).toBe(0)
    const doubted = yield* command("reports remove rep_4", "request 14")
    expect(doubted.out).toContain("search the tracker for rep_4-")
  })

  it.scopedLive("removes what all filters select together, after a dry run that counts it", function* () {
    const { command, left, place, send, store } = yield* opened(flood)
    const counts = [
      ["rep_v1", 1],
      ["--anonymous", 3],
      ["--anonymous --since 24h", 2],
      ["--anonymous --reporter unverified", 1],
      ["--reporter c:ana --since 24h", 1],
      ["--reporter c:ana --anonymous", 0]
    ] as const
    for (const [filters, reports] of counts) {
      const { json } = yield* command(`reports remove ${filters} --dry-run --json`)
      expect([filters, json]).toMatchObject([filters, { dry_run: true, reports, bytes: reports * bytesEach }])
    }
    expect((yield* left).length).toBe(6)
    const before = yield* store.reports.storedBytes
    const removed = yield* command("reports remove --anonymous --json", "a flood")
    const clean = { being_filed: [], remains: [] }
    expect(removed.exit).toBe(0)
    expect(removed.json).toEqual({ dry_run: false, reports: 3, bytes: 3 * bytesEach, ...clean })
    expect(yield* left).toEqual(["rep_v1", "rep_v2", "rep_v3"])
    // The server counts them no more.
    expect(yield* store.reports.storedBytes).toBeLessThan(before - 3 * 1_900)
    expect(yield* rawQuery(place, "SELECT holder FROM report_sums WHERE holder = 'a'")).toEqual([])

    // Those that are left have deliveries, and it names what remains in the tracker or is being filed.
    const first = yield* send(filed())
    const sending = yield* send()
    const { err, exit, out } = yield* command("reports remove --since 100h", "a flood")
    expect([exit, err]).toEqual([1, expect.stringContaining(`being filed: ${sending.subject}`)])
    expect(out).toContain(`${first.subject}, remains the issue ${issue.url}: delete it in the tracker`)
    expect(yield* left).toEqual([sending.subject])
    const alone = yield* command(`reports remove ${sending.subject}`, "a flood")
    expect([alone.exit, alone.err]).toEqual([
      1,
      expect.stringContaining("not removed, because at this moment")
    ])
    const sums = yield* rawQuery(place, "SELECT SUM(bytes) AS bytes FROM reports")
    expect(yield* store.reports.storedBytes).toBe(Number(sums[0]?.bytes))
    // Each repetition gets its old answer, also where several had sent the same under one key.
    for (const [id, reporter, age] of flood)
      expect((yield* store.reports.admit(plain(`${id}_again`, reporter, age), true))._tag).toBe("Replayed")
  })

  it.scopedLive("a removal that was cut is repeated, and removes the rest", function* () {
    const many = Array.from({ length: 60 }, (_, index): Row => [`rep_${index}`, Anonymous(), index])
    const { command, left, place } = yield* opened(many)
    const removals = Effect.map(
      rawQuery(place, "SELECT COUNT(*) AS count FROM reports WHERE removed_at IS NOT NULL"),
      ([row]) => Number(row?.count)
    )
    const removing = yield* Effect.fork(command("reports remove --anonymous", "a flood"))
    yield* awaited("the first removals", removals, (count) => count > 0)
    yield* Fiber.interrupt(removing)
    const done = yield* removals
    const { exit, json } = yield* command("reports remove --anonymous --json", "a flood")
    expect([exit, json]).toEqual([0, expect.objectContaining({ reports: 60 - done })])
    expect([yield* removals, yield* left]).toEqual([60, []])
  })
})

it.scopedLive("reports remove names an issue that is filed while it waits, on Postgres", function* () {
  const place = yield* postgres.freshPath
  const { reports } = yield* postgres.openStore(place)
  yield* reports.admit(personal("rep_1"), true)
  const waiting =
    "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
  const { exit, out } = yield* withPgClient(place, async (worker) => {
    await worker.query(`BEGIN;
      UPDATE deliveries SET state = 'delivered', attempts = 1, finished_at = 1;
      UPDATE reports SET issue_number = ${issue.number}, issue_url = '${issue.url}'`)
    const remove = ["reports", "remove", "rep_1", "--reason", "request 14"]
    const removing = Effect.runPromise(run(remove, { MUSIC_DATABASE_URL: place }))
    // On a connection of its own: a transaction sees the activity of its first look only.
    const lock = awaited("the lock", postgres.rawQuery(place, waiting), ({ length }) => length === 1)
    await Effect.runPromise(lock)
    await worker.query("COMMIT")
    return removing
  })
  expect([exit, out]).toEqual([0, expect.stringContaining(`the issue ${issue.url}: delete it`)])
})
