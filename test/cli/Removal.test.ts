import { randomBytes } from "node:crypto"
import { existsSync, readFileSync } from "node:fs"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import pg from "pg"
import {
  Anonymous,
  DeliveryUpdate,
  type StoreService,
  Unverified,
  Verified
} from "../../src/services/Store.ts"
import { onBoth, postgres, sampleLease, sampleReport } from "../layers/store/Stores.ts"
import { run } from "./Harness.ts"

const secret = "Anna Person, 7 Harbor Street"
const issue = { number: 57, url: "https://github.com/harbor/music/issues/57" }
const personal = (id: string) =>
  sampleReport({
    id,
    keyDigest: `key of ${id}`,
    createdAt: Date.now() - 60_000,
    reporter: Verified({ publicId: "c:anna-person" }),
    content: {
      message: `My address is ${secret}.`,
      pr: null,
      // Large enough for pages of its own.
      attachments: [{ name: "a.log", content: `${secret} `.repeat(2_000) }],
      context: null
    }
  })

const lease = ({ deliveries }: StoreService) =>
  Effect.flatMap(
    deliveries.lease({
      ...sampleLease(),
      kinds: ["report"],
      now: Date.now(),
      leaseUntil: Date.now() + 60_000
    }),
    ([leased]) => (leased === undefined ? Effect.dieMessage("nothing is due") : Effect.succeed(leased))
  )

onBoth("music-backend reports remove", ({ freshPath, name, openStore, rawQuery }) => {
  const environmentOf = (place: string): Record<string, string> =>
    name === "SQLite" ? { MUSIC_DATABASE_PATH: place } : { MUSIC_DATABASE_URL: place }

  it.scopedLive(
    "deletes content and reporter beside a running server; a repetition gets its old answer and is neither stored nor filed",
    function* () {
      const place = yield* freshPath
      const environment = environmentOf(place)
      const store = yield* openStore(place)
      const { deliveries, reports } = store
      yield* reports.admit(personal("rep_1"), true)
      const removed = yield* run(["reports", "remove", "rep_1", "--reason", "request 12"], environment)
      expect([removed.exit, removed.err, removed.out.split("\n")]).toEqual([
        0,
        "",
        [
          "removed  rep_1: its content and its reporter are deleted from this database",
          "remains  no issue: it was never sent to the tracker",
          ...(name === "SQLite"
            ? []
            : [
                "files    the database's files hold the old row until you run in it, at a quiet time: VACUUM FULL reports"
              ]),
          "backups  those from before hold it until they are deleted"
        ]
      ])

      // The old answer, to the same person and to readers whom IAM did not verify; their names do not come back.
      for (const reporter of [Verified({ publicId: "c:anna-person" }), Unverified(), Anonymous()]) {
        const again = yield* reports.admit(
          { ...personal("rep_2"), keyDigest: "key of rep_1", reporter },
          true
        )
        expect(again).toMatchObject({ _tag: "Replayed", report: { id: "rep_1" } })
      }
      // The key stays bound to that content, for every reporter.
      for (const reporter of [Verified({ publicId: "c:anna-person" }), Unverified(), Anonymous()]) {
        const other = { ...personal("rep_2"), keyDigest: "key of rep_1", contentDigest: "other", reporter }
        expect((yield* reports.admit(other, true))._tag).toBe("Conflict")
      }
      const shown = yield* run(["reports", "show", "rep_1"], environment)
      expect([shown.exit, shown.out]).toEqual([0, expect.stringMatching(/^removed +\S+Z: request 12$/m)])
      const { out: lines } = yield* run(["reports", "export"], environment)
      const nameless = { id: "rep_1", reporter: null, request_id: null, removed: { reason: "request 12" } }
      expect(JSON.parse(lines)).toMatchObject({ ...nameless, message: null, attachments: [] })
      const { json } = yield* run(["reports", "show", "rep_1", "--json"], environment)
      expect(json).toMatchObject({ ...nameless, message: null })
      const listed = yield* run(["reports", "list"], environment)
      expect(listed.out).toMatch(/ - +removed: request 12$/)
      const asUnverified = ["reports", "list", "--reporter", "unverified", "--json"]
      expect((yield* run(asUnverified, environment)).json).toMatchObject({ items: [] })
      yield* reports.admit(
        sampleReport({ id: "rep_4", keyDigest: "key of rep_4", reporter: Unverified() }),
        false
      )
      expect((yield* run(asUnverified, environment)).json).toMatchObject({ items: [{ id: "rep_4" }] })
      for (const { out } of [removed, shown, listed]) expect(out).not.toMatch(/Anna|anna/)
      expect(lines).not.toMatch(/Anna|anna/)

      // Nothing is filed, not even by a retry.
      for (const args of [
        ["reports", "retry", "rep_1"],
        ["deliveries", "retry", "report:rep_1"]
      ])
        expect((yield* run(args, environment)).exit).toBe(1)
      expect(yield* deliveries.lease({ ...sampleLease(), now: Date.now() + 86_400_000 })).toEqual([])
      expect(yield* deliveries.counts).toEqual([])

      const twice = yield* run(["reports", "remove", "rep_1", "--reason", "again"], environment)
      expect([twice.exit, twice.err]).toEqual([
        1,
        expect.stringMatching(/^music-backend: rep_1 was removed at \S+Z: request 12\. Its content/)
      ])

      // The total equals the rows, and stays so when retention removes the row; the record stays.
      const [sum] = yield* rawQuery(
        place,
        `SELECT SUM(${name === "SQLite" ? "LENGTH(CAST(content AS BLOB))" : "OCTET_LENGTH(content)"} + 1000) AS bytes FROM reports`
      )
      expect(yield* reports.storedBytes).toBe(Number(sum?.bytes))
      expect(yield* store.retention.reports(Date.now())).toBe(2)
      expect(yield* reports.storedBytes).toBe(0)
      const later = yield* run(["reports", "show", "rep_1"], environment)
      expect([later.exit, later.err]).toEqual([1, expect.stringContaining("rep_1 was removed at")])

      if (name === "SQLite")
        for (const file of [place, `${place}-wal`])
          expect([file, existsSync(file) && readFileSync(file).includes(secret)]).toEqual([file, false])
    }
  )

  it.scopedLive("refuses a report that is being filed, and names the issue of one that was", function* () {
    const place = yield* freshPath
    const environment = environmentOf(place)
    const store = yield* openStore(place)
    yield* store.reports.admit(personal("rep_1"), true)
    const { fence, id } = yield* lease(store)
    yield* store.deliveries.update(id, fence, DeliveryUpdate.Sending({ at: Date.now() }))
    const remove = ["reports", "remove", "rep_1", "--reason", "request 12", "--json"]
    const refused = yield* run(remove, environment)
    expect([refused.exit, refused.err]).toEqual([
      1,
      "music-backend: rep_1 is being filed at this moment: nothing was removed. Try again in a minute."
    ])
    expect(Option.map(yield* store.reports.find("rep_1"), ({ content }) => content.message)).toEqual(
      Option.some(`My address is ${secret}.`)
    )
    yield* store.deliveries.update(
      id,
      fence,
      DeliveryUpdate.Delivered({ at: Date.now(), issue: Option.some(issue), sweepAt: Option.none() })
    )
    const removed = yield* run(remove, environment)
    expect(removed.json).toMatchObject({
      id: "rep_1",
      status: "filed",
      issue,
      delivery: { state: "delivered", finished_at: expect.stringMatching(/Z$/) },
      removed: { reason: "request 12" },
      remains: `the issue ${issue.url}: delete it in the tracker`,
      vacuum: name === "SQLite" ? null : "VACUUM FULL reports"
    })

    // An unknown outcome: the issue may exist, and is found by the reference in its text.
    yield* store.reports.admit(personal("rep_3"), true)
    const second = yield* lease(store)
    yield* store.deliveries.update(second.id, second.fence, DeliveryUpdate.Sending({ at: Date.now() }))
    yield* store.deliveries.update(
      second.id,
      second.fence,
      DeliveryUpdate.Unknown({ availableAt: Date.now(), failure: "lost", searches: 0 })
    )
    const lost = yield* run(["reports", "remove", "rep_3", "--reason", "request 13"], environment)
    expect(lost.out).toContain(`search the tracker for rep_3-${personal("rep_3").marker}`)
  })
})

it.scopedLive("reports remove names an issue that is filed while it waits, on Postgres", function* () {
  const place = yield* postgres.freshPath
  const store = yield* postgres.openStore(place)
  yield* store.reports.admit(personal("rep_1"), true)
  const worker = yield* Effect.acquireRelease(
    Effect.promise(async () => {
      const client = new pg.Client({ connectionString: place })
      await client.connect()
      return client
    }),
    (client) => Effect.promise(() => client.end())
  )
  yield* Effect.promise(() =>
    worker.query(`BEGIN;
        UPDATE deliveries SET state = 'delivered', attempts = 1, finished_at = 1;
        UPDATE reports SET issue_number = ${issue.number}, issue_url = '${issue.url}'`)
  )
  const removing = yield* Effect.fork(
    run(["reports", "remove", "rep_1", "--reason", "request 14"], { MUSIC_DATABASE_URL: place })
  )
  // On a connection of its own: a transaction sees the activity of its first look only.
  yield* postgres
    .rawQuery(
      place,
      "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    .pipe(Effect.delay("20 millis"), Effect.repeat({ until: ({ length }) => length === 1 }))
  yield* Effect.promise(() => worker.query("COMMIT"))
  const { exit, out } = yield* Fiber.join(removing)
  expect([exit, out]).toEqual([0, expect.stringContaining(`the issue ${issue.url}: delete it`)])
})

/** Whether the files of the table, as they are on the disk, hold the text. */
const filesHold = (place: string, text: string) =>
  Effect.map(
    postgres.rawQuery(
      place,
      `CHECKPOINT;
       SELECT BOOL_OR(POSITION('${text}'::bytea IN pg_read_binary_file(pg_relation_filepath(file))) > 0) AS holds
       FROM pg_class, LATERAL (VALUES (oid::regclass), (reltoastrelid::regclass)) AS files (file)
       WHERE oid = 'reports'::regclass`
    ),
    ([row]) => row?.holds
  )

describe("music-backend reports remove, on Postgres", () => {
  it.scopedLive("names the statement that removes the old row from the files", function* () {
    // New, so that the reports are in their order in its files.
    const place = yield* postgres.emptyPath
    const { reports } = yield* postgres.openStore(place)
    // Without repetitions, which Postgres would compress; and one at the end, so that the file is not cut.
    for (const [id, text] of [
      ["rep_1", secret],
      ["rep_2", "Playback stops."]
    ] as const)
      yield* reports.admit(
        {
          ...personal(id),
          content: {
            ...personal(id).content,
            message: `${text} ${randomBytes(6_000).toString("base64")}`,
            attachments: []
          }
        },
        false
      )
    const removed = yield* run(["reports", "remove", "rep_1", "--reason", "request 12"], {
      MUSIC_DATABASE_URL: place
    })
    // Not enough: it frees the place, and does not overwrite it.
    yield* postgres.rawQuery(place, "VACUUM reports")
    expect(yield* filesHold(place, secret)).toBe(true)
    const [, statement = ""] = /^files .*: (.+)$/m.exec(removed.out) ?? []
    yield* postgres.rawQuery(place, statement)
    expect(yield* filesHold(place, secret)).toBe(false)
  })
})
