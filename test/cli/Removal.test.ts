/** Removing reports, one or by filter, beside a running server. */
import { existsSync, readFileSync } from "node:fs"
import { expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { Anonymous, DeliveryUpdate, type Reporter, Unverified, Verified } from "../../src/services/Store.ts"
import { sampleLease, sampleReport } from "../layers/store/Samples.ts"
import { onBoth, postgres, withPgClient } from "../layers/store/Stores.ts"
import { awaited } from "../world/Waiting.ts"
import { environmentOf, run } from "./Harness.ts"

const hour = 3_600_000
const secret = "Anna Person, 7 Harbor Street"
const issue = { number: 57, url: "https://github.com/harbor/music/issues/57" }
const anna = Verified({ publicId: "c:anna-person" })

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

/** Id, reporter, hours of age. */
type Row = readonly [id: string, reporter: Reporter, age: number]
const flood: ReadonlyArray<Row> = [
  ["rep_a1", Anonymous(), 1],
  ["rep_a2", Anonymous(), 30],
  ["rep_u1", Unverified(), 2],
  ["rep_v1", Verified({ publicId: "c:ana" }), 1],
  ["rep_v2", Verified({ publicId: "c:ana" }), 30],
  ["rep_v3", Verified({ publicId: "c:eva" }), 1]
]

onBoth("Removing reports", (kind) => {
  const { freshPath, name, openStore, rawQuery } = kind
  const isSqlite = name === "SQLite"

  const opened = (rows: ReadonlyArray<Row>) =>
    Effect.gen(function* () {
      const place = yield* freshPath
      const store = yield* openStore(place)
      for (const [id, reporter, age] of rows)
        yield* store.reports.admit(
          sampleReport({
            id,
            keyDigest: `key of ${id}`,
            reporter,
            createdAt: Date.now() - age * hour,
            content: { message: "x".repeat(2_000), pr: null, attachments: [], context: null },
            ...(reporter._tag === "Verified" ? {} : { network: "a" })
          }),
          true
        )
      /** `reason` is put behind `--reason`. */
      const command = (line: string, reason?: string) =>
        run(
          [...line.split(" "), ...(reason === undefined ? [] : ["--reason", reason])],
          environmentOf(kind, place)
        )
      const left = Effect.map(
        rawQuery(
          place,
          "SELECT id FROM reports WHERE id NOT IN (SELECT id FROM report_removals) ORDER BY id"
        ),
        (found) => found.map(({ id }) => id)
      )
      const lease = Effect.flatMap(
        Effect.suspend(() =>
          store.deliveries.lease(sampleLease({ now: Date.now(), leaseUntil: Date.now() + hour }))
        ),
        Option.match({ onNone: () => Effect.dieMessage("nothing is due"), onSome: Effect.succeed })
      )
      const { update } = store.deliveries
      const filed = () =>
        DeliveryUpdate.Delivered({ at: Date.now(), issue: Option.some(issue), sweepAt: Option.none() })
      return { place, store, command, left, lease, update, filed }
    })

  it.scopedLive("deletes content and reporter; a repetition is neither stored nor filed", function* () {
    const { command, place, store } = yield* opened([])
    const { deliveries, reports } = store
    yield* reports.admit(personal("rep_1"), true)
    const removed = yield* command("reports remove rep_1", "request 12")
    expect(removed).toMatchObject({ exit: 0, err: "" })
    expect(removed.out).not.toContain("remains")
    expect(removed.out.includes("VACUUM FULL reports")).toBe(!isSqlite)

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
    expect(yield* deliveries.counts).toEqual([])
    const twice = yield* command("reports remove rep_1", "again")
    expect([twice.exit, twice.err]).toEqual([1, expect.stringMatching(/removed at \S+Z: request 12\./)])

    // Retention removes the row; the record stays.
    expect(yield* store.retention.reports(Date.now())).toBe(1)
    expect(yield* reports.storedBytes).toBe(0)
    const later = yield* command("reports show rep_1")
    expect([later.exit, later.err]).toEqual([1, expect.stringContaining("rep_1 was removed at")])
    if (isSqlite)
      for (const file of [place, `${place}-wal`])
        expect([file, existsSync(file) && readFileSync(file).includes(secret)]).toEqual([file, false])
  })

  it.scopedLive("refuses a report that is being filed; names the issue of one that was", function* () {
    const { command, filed, lease, store, update } = yield* opened([])
    yield* store.reports.admit(personal("rep_1"), true)
    const first = yield* lease
    yield* update(first, DeliveryUpdate.Sending({ at: Date.now() }))
    const err = expect.stringContaining("not removed, because at this moment")
    expect(yield* command("reports remove rep_1", "request 12")).toMatchObject({ exit: 1, err })
    const { content } = Option.getOrThrow(yield* store.reports.find("rep_1"))
    expect(content.message).toBe(`My address is ${secret}.`)
    yield* update(first, filed())
    expect((yield* command("reports remove rep_1 --json", "request 12")).json).toMatchObject({
      remains: [{ id: "rep_1", remains: `the issue ${issue.url}: delete it in the tracker` }]
    })
    const shown = { status: "filed", issue, delivery: { state: "delivered" } }
    expect((yield* command("reports show rep_1 --json")).json).toMatchObject(shown)

    // An unknown outcome: the issue may exist, and is found by the reference in its text.
    yield* store.reports.admit(personal("rep_3"), true)
    const second = yield* lease
    yield* update(second, DeliveryUpdate.Sending({ at: Date.now() }))
    yield* update(second, DeliveryUpdate.Unknown({ availableAt: Date.now(), failure: "lost", searches: 0 }))
    const lost = yield* command("reports remove rep_3", "request 13")
    expect(lost.out).toContain(`search the tracker for rep_3-${personal("rep_3").marker}`)

    // Sent twice: the list of the tracker may still hide another issue, which only the search for duplicates finds and which nobody deletes.
    yield* store.reports.admit(personal("rep_5"), true)
    for (const attempt of [1, 2]) {
      const sending = yield* lease
      yield* update(sending, DeliveryUpdate.Sending({ at: Date.now() }))
      const unknown = { availableAt: Date.now(), failure: "lost", searches: 2 }
      yield* update(sending, attempt === 1 ? DeliveryUpdate.Unknown(unknown) : filed())
    }
    const twice = yield* command("reports remove rep_5", "request 15")
    const reference = `rep_5-${personal("rep_5").marker}`
    expect(twice.out).toContain(
      `the issue ${issue.url}, and perhaps others: search the tracker for ${reference}, and delete them there`
    )

    // Never sent by this delivery, but perhaps by one that retention has deleted.
    yield* store.reports.admit(personal("rep_4"), false)
    expect((yield* command("reports retry rep_4")).exit).toBe(0)
    const doubted = yield* command("reports remove rep_4", "request 14")
    expect(doubted.out).toContain("search the tracker for rep_4-")
  })

  it.scopedLive("removes a report whose sender died, also when no server runs any more", function* () {
    const { command, left, place, store } = yield* opened([])
    const { deliveries, reports } = store
    yield* reports.admit(personal("rep_1"), true)
    const now = Date.now()
    const held = Option.getOrThrow(yield* deliveries.lease(sampleLease({ now, leaseUntil: now + 10_000 })))
    yield* deliveries.update(held, DeliveryUpdate.Sending({ at: now }))
    yield* rawQuery(place, `UPDATE deliveries SET lease_until = ${now - 1}`)
    const { err, exit, out } = yield* command("reports remove rep_1", "request 12")
    expect([exit, err]).toEqual([0, ""])
    expect(out).toContain(`search the tracker for rep_1-${personal("rep_1").marker}`)
    expect(yield* left).toEqual([])
    // Should the sender be late only, nothing of it is written.
    expect(yield* deliveries.update(held, DeliveryUpdate.Waiting({ availableAt: now, failure: "502" }))).toBe(
      false
    )
    expect(Option.getOrThrow(yield* deliveries.find("report:rep_1")).state).toBe("failed")
  })

  it.scopedLive("removes what all filters select together, after a dry run that counts it", function* () {
    const { command, filed, lease, left, place, store, update } = yield* opened(flood)
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
    const clean = { being_filed: [], remains: [], vacuum: isSqlite ? null : "VACUUM FULL reports" }
    expect(removed.exit).toBe(0)
    expect(removed.json).toEqual({ dry_run: false, reports: 3, bytes: 3 * bytesEach, ...clean })
    expect(yield* left).toEqual(["rep_v1", "rep_v2", "rep_v3"])
    // The server counts them no more.
    expect(yield* store.reports.storedBytes).toBeLessThan(before - 3 * 1_900)
    expect(yield* rawQuery(place, "SELECT holder FROM report_sums WHERE holder = 'a'")).toEqual([])

    // Those that are left have deliveries, and it names what remains in the tracker or is being filed.
    const first = yield* lease
    yield* update(first, filed())
    const sending = yield* lease
    const { err, exit, out } = yield* command("reports remove --since 100h", "a flood")
    expect([exit, err]).toEqual([1, expect.stringContaining(`being filed: ${sending.subject}`)])
    expect(out).toContain(`${first.subject}, remains the issue ${issue.url}: delete it in the tracker`)
    expect(yield* left).toEqual([sending.subject])
  })

  it.scopedLive("removes what several people sent under one key with the same content", function* () {
    const { command, left, place, store } = yield* opened([])
    const reporters = [Anonymous(), anna, Verified({ publicId: "c:eva" })]
    const under = (reporter: Reporter, index: number) => ({
      ...personal(`rep_${index}`, reporter),
      keyDigest: "one key"
    })
    for (const [index, reporter] of reporters.entries())
      expect((yield* store.reports.admit(under(reporter, index), true))._tag).toBe("Stored")
    const { err, exit, json } = yield* command("reports remove --since 1h --json", "request 12")
    expect([exit, err, json]).toEqual([0, "", expect.objectContaining({ reports: 3 })])
    expect(yield* left).toEqual([])
    for (const [index, reporter] of reporters.entries())
      expect((yield* store.reports.admit(under(reporter, 9 + index), true))._tag).toBe("Replayed")
    const sums = yield* rawQuery(place, "SELECT SUM(bytes) AS bytes FROM reports")
    expect(yield* store.reports.storedBytes).toBe(sums[0]?.bytes)
    const ids = yield* rawQuery(place, "SELECT id FROM report_removals ORDER BY id")
    expect(ids.map(({ id }) => id)).toEqual(["rep_0", "rep_1", "rep_2"])
  })

  it.scopedLive("a removal that was cut is repeated, and removes the rest", function* () {
    const many = Array.from({ length: 60 }, (_, index): Row => [`rep_${index}`, Anonymous(), 1])
    const { command, left, place } = yield* opened(many)
    const removals = Effect.map(rawQuery(place, "SELECT COUNT(*) AS count FROM report_removals"), ([row]) =>
      Number(row?.count)
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
