/** Removing reports and discarding deliveries by filter. */
import { execFileSync } from "node:child_process"
import { beforeAll, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import {
  Anonymous,
  DeliveryUpdate,
  type Reporter,
  type StoreService,
  Unverified,
  Verified
} from "../../src/services/Store.ts"
import { type Kind, onBoth, sampleLease, sampleReport } from "../layers/store/Stores.ts"
import { root, start } from "../world/Fleet.ts"
import { awaited } from "../support/Waiting.ts"
import { run } from "./Harness.ts"

beforeAll(() => {
  execFileSync(process.execPath, ["scripts/build.mjs", "--if-needed"], { cwd: root })
})

const hour = 3_600_000
const ana = Verified({ publicId: "c:ana" })

const environmentOf = ({ name }: Kind, place: string): Record<string, string> =>
  name === "SQLite" ? { MUSIC_DATABASE_PATH: place } : { MUSIC_DATABASE_URL: place }

/** Stores reports: id, reporter, hours of age. */
const fill = (
  { reports }: StoreService,
  rows: ReadonlyArray<readonly [id: string, reporter: Reporter, age: number]>
) =>
  Effect.forEach(rows, ([id, reporter, age]) =>
    reports.admit(
      sampleReport({
        id,
        keyDigest: id,
        reporter,
        createdAt: Date.now() - age * hour,
        content: { message: "x".repeat(2_000), pr: null, attachments: [], context: null },
        ...(reporter._tag === "Verified" ? {} : { network: "a" })
      }),
      true
    )
  )

/** A report of `fill`, as the bound counts it. */
const bytesEach = 3_056

const flood = [
  ["rep_a1", Anonymous(), 1],
  ["rep_a2", Anonymous(), 30],
  ["rep_u1", Unverified(), 2],
  ["rep_v1", ana, 1],
  ["rep_v2", ana, 30],
  ["rep_v3", Verified({ publicId: "c:eva" }), 1]
] as const

onBoth("Commands by filter", (kind) => {
  const { freshPath, openStore, rawQuery } = kind
  const left = (place: string) =>
    Effect.map(
      rawQuery(place, "SELECT id FROM reports WHERE id NOT IN (SELECT id FROM report_removals) ORDER BY id"),
      (rows) => rows.map(({ id }) => id)
    )

  const world = Effect.gen(function* () {
    const place = yield* freshPath
    const store = yield* openStore(place)
    yield* fill(store, flood)
    const command = (...args: ReadonlyArray<string>) => run(args, environmentOf(kind, place))
    return { place, store, command }
  })

  it.scopedLive("a dry run counts what all filters select together, and changes nothing", function* () {
    const { command, place } = yield* world
    const counted = (...filters: ReadonlyArray<string>) =>
      Effect.map(command("reports", "remove", ...filters, "--dry-run", "--json"), ({ exit, json }) => [
        exit,
        json
      ])
    const expected = (count: number) => [
      0,
      expect.objectContaining({ dry_run: true, reports: count, bytes: count * bytesEach })
    ]
    expect(yield* counted("--anonymous")).toEqual(expected(3))
    expect(yield* counted("--anonymous", "--since", "24h")).toEqual(expected(2))
    expect(yield* counted("--anonymous", "--reporter", "unverified")).toEqual(expected(1))
    expect(yield* counted("--reporter", "c:ana")).toEqual(expected(2))
    expect(yield* counted("--reporter", "c:ana", "--since", "24h")).toEqual(expected(1))
    expect(yield* counted("--reporter", "c:ana", "--anonymous")).toEqual(expected(0))
    expect(yield* counted("--since", "100h")).toEqual(expected(6))
    expect((yield* command("reports", "remove", "--anonymous", "--dry-run")).out).toBe(
      "would remove  3 reports, which take 9.2 kB"
    )
    const discarded = yield* command("deliveries", "discard", "--anonymous", "--dry-run", "--json")
    expect(discarded.json).toEqual({ dry_run: true, deliveries: 3, bytes: 3 * bytesEach })
    expect((yield* left(place)).length).toBe(6)
    expect(yield* rawQuery(place, "SELECT id FROM deliveries WHERE state <> 'waiting'")).toEqual([])
  })

  it.scopedLive(
    "without a filter and an id, with both, or without a reason it is a usage error",
    function* () {
      const { command, place } = yield* world
      for (const args of [
        ["reports", "remove", "--reason", "x"],
        ["reports", "remove", "--dry-run"],
        ["reports", "remove", "rep_a1", "--anonymous", "--reason", "x"],
        ["reports", "remove", "rep_a1", "--dry-run"],
        ["reports", "remove", "--anonymous"],
        ["reports", "remove", "--anonymous", "--reason", " "],
        ["reports", "remove", "--since", "yesterday", "--reason", "x"],
        ["deliveries", "discard"],
        ["deliveries", "discard", "report:rep_a1", "--anonymous"]
      ])
        expect([args, (yield* command(...args)).exit]).toEqual([args, 64])
      expect((yield* left(place)).length).toBe(6)
    }
  )

  it.scopedLive(
    "removes all of them beside a running server, which counts them no more; a repetition is recognised",
    function* () {
      const { command, place, store } = yield* world
      const before = yield* store.reports.storedBytes
      const removed = yield* command("reports", "remove", "--anonymous", "--reason", "a flood", "--json")
      expect([removed.exit, removed.json]).toEqual([
        0,
        {
          dry_run: false,
          reports: 3,
          bytes: 3 * bytesEach,
          being_filed: [],
          remains: [],
          vacuum: kind.name === "SQLite" ? null : "VACUUM FULL reports"
        }
      ])
      expect(yield* left(place)).toEqual(["rep_v1", "rep_v2", "rep_v3"])
      expect(yield* store.reports.storedBytes).toBeLessThan(before - 3 * 1_900)
      expect(yield* rawQuery(place, "SELECT holder FROM room_holders WHERE plane = ''")).toEqual([])
      const again = yield* store.reports.admit(
        sampleReport({ id: "rep_again", keyDigest: "rep_a1", reporter: Anonymous() }),
        true
      )
      expect(again).toMatchObject({ _tag: "Replayed", report: { id: "rep_a1" } })
      const twice = yield* command("reports", "remove", "--anonymous", "--reason", "a flood", "--json")
      expect(twice.json).toMatchObject({ reports: 0, bytes: 0 })
      // Only those of the other reporters are filed.
      const leased = yield* store.deliveries.lease({
        ...sampleLease(),
        now: Date.now(),
        leaseUntil: Date.now() + hour
      })
      expect(leased.map(({ subject }) => subject).sort()).toEqual(["rep_v1", "rep_v2", "rep_v3"])
    }
  )

  it.scopedLive("names what remains in the tracker, and what is being filed", function* () {
    const { command, place, store } = yield* world
    const issue = { number: 57, url: "https://github.com/harbor/music/issues/57" }
    const lease = { ...sampleLease({ count: 2 }), now: Date.now(), leaseUntil: Date.now() + hour }
    const [filed, sending] = yield* store.deliveries.lease(lease)
    if (filed === undefined || sending === undefined) return yield* Effect.dieMessage("nothing is due")
    yield* store.deliveries.update(
      filed.id,
      filed.fence,
      DeliveryUpdate.Delivered({ at: Date.now(), issue: Option.some(issue), sweepAt: Option.none() })
    )
    const { err, exit, out } = yield* command("reports", "remove", "--since", "100h", "--reason", "a flood")
    expect([exit, err]).toEqual([1, expect.stringContaining(`being filed: ${sending.subject}`)])
    expect(out).toContain("5 reports, which take")
    expect(out).toContain(`of ${filed.subject} the issue ${issue.url}: delete it in the tracker`)
    expect(yield* left(place)).toEqual([sending.subject])
  })

  it.scopedLive("discards their deliveries and keeps the reports", function* () {
    const { command, place, store } = yield* world
    yield* store.deliveries.discard("report:rep_a1", Date.now(), "by hand")
    const discarded = yield* command("deliveries", "discard", "--anonymous", "--reason", "a flood")
    expect([discarded.exit, discarded.out]).toEqual([
      0,
      "discarded  the deliveries of 2 reports, which take 6.1 kB and are kept"
    ])
    expect((yield* left(place)).length).toBe(6)
    expect(
      yield* rawQuery(
        place,
        "SELECT id, last_failure FROM deliveries WHERE discarded_at IS NOT NULL ORDER BY id"
      )
    ).toEqual([
      { id: "report:rep_a1", last_failure: "by hand" },
      { id: "report:rep_a2", last_failure: "a flood" },
      { id: "report:rep_u1", last_failure: "a flood" }
    ])
  })

  it.scopedLive("a removal that was killed is repeated, and removes the rest", function* () {
    const place = yield* freshPath
    const store = yield* openStore(place)
    yield* fill(
      store,
      Array.from({ length: 300 }, (_, index) => [`rep_${index}`, Anonymous(), 1] as const)
    )
    const removals = Effect.map(rawQuery(place, "SELECT COUNT(*) AS count FROM report_removals"), ([row]) =>
      Number(row?.count)
    )
    const args = ["reports", "remove", "--anonymous", "--reason", "a flood"]
    const { child, ended } = start(process.execPath, ["dist/cli.js", ...args], environmentOf(kind, place))
    yield* awaited("the first removals", removals, (count) => count > 0)
    child.kill("SIGKILL")
    yield* Effect.promise(() => ended)
    const done = yield* removals
    const { exit, json } = yield* run([...args, "--json"], environmentOf(kind, place))
    expect([exit, json]).toEqual([0, expect.objectContaining({ reports: 300 - done })])
    expect([yield* removals, yield* left(place)]).toEqual([300, []])
    const [sum] = yield* rawQuery(
      place,
      `SELECT SUM(${kind.name === "SQLite" ? "LENGTH(CAST(content AS BLOB))" : "OCTET_LENGTH(content)"} + 1000) AS bytes FROM reports`
    )
    expect(yield* store.reports.storedBytes).toBe(Number(sum?.bytes))
  })
})
