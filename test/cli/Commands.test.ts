import { existsSync } from "node:fs"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import { Effect, Option } from "effect"
import { settingEntries } from "../../src/services/settings/SettingsTable.ts"
import { DeliveryUpdate, type StoreService, Verified } from "../../src/services/Store.ts"
import { sampleEntry, sampleEvent, sampleReport, sampleSpoolLease } from "../layers/store/Samples.ts"
import { freshPath, newPath, postgres, rawQuery, withStore } from "../layers/store/Stores.ts"
import { run } from "./Harness.ts"

const at = Date.parse("2026-11-21T07:30:00Z")
const plane = "0199b000-0000-7000-8000-00000000000e"
const issue = { number: 57, url: "https://github.com/harbor/music/issues/57" }
const trackerSettings = { MUSIC_GITHUB_TOKEN: "token", MUSIC_GITHUB_REPOSITORY: "harbor/music" }

/** Leases the one delivery that is due and ends it. */
const settle = ({ deliveries }: StoreService, update: (now: number) => DeliveryUpdate) =>
  Effect.gen(function* () {
    const delivery = yield* deliveries.lease({ now: at + 10, leaseUntil: at + 60_000 })
    if (Option.isSome(delivery)) yield* deliveries.update(delivery.value, update(at + 1_000))
  })

const organisationUuid = "0199a0aa-0000-7000-8000-000000000001"
const event = sampleEvent({ receivedAt: at, organisationUuid, data: '{"changed_fields":[]}' })
const aggregate = { type: event.aggregateType, id: event.aggregateId, version: event.aggregateVersion }
const failed = { id: "report:rep_failed", state: "failed", last_failure: "422 validation_failed" }

const awkward = {
  message: "Red \u001b[31m and \u202eturned\u202c\nsecond line",
  pr: null,
  attachments: [{ name: "a\u0007.log", content: "one\ntwo" }],
  context: null
}

/** Stores a filed report, one whose delivery failed, one without a delivery, one of a testing plane, and a record of each other kind. */
const fill = (store: StoreService) =>
  Effect.gen(function* () {
    const add = (id: string, change: Parameters<typeof sampleReport>[0], deliver: boolean) =>
      store.reports.admit(sampleReport({ id, keyDigest: id, ...change }), deliver)
    yield* add("rep_filed", { createdAt: at, reporter: Verified({ publicId: "si:deejay" }) }, true)
    yield* settle(store, (now) =>
      DeliveryUpdate.Delivered({ at: now, issue: Option.some(issue), sweepAt: Option.none() })
    )
    yield* add("rep_failed", { createdAt: at + 1 }, true)
    yield* settle(store, (now) => DeliveryUpdate.Failed({ at: now, failure: "422 validation_failed" }))
    yield* add("rep_alone", { createdAt: at + 2, content: awkward }, false)
    yield* add("rep_plane", { createdAt: at + 3, plane }, false)
    yield* store.webhooks.receive(event, [])
    yield* store.recipients.activate({
      plane: "production",
      organisation: "acme",
      organisationUuid,
      publicId: "si:deejay",
      subscriptionId: "sub_1"
    })
    const events = ["a", "b", "c"].map((id, index) => sampleEntry(id, { acceptedAt: at + index }))
    yield* store.spool.offer(events, { limitBytes: 1e6 })
    yield* store.spool.lease(sampleSpoolLease({ count: 2 }))
    const refused = ["size_exceeded", "invalid"].map((code, index) => ({
      recordId: "ab".charAt(index),
      code
    }))
    yield* store.spool.settle({ owner: "worker", now: at, delivered: [], duplicates: [], refused })
  })

/** A database that is filled, and `music-backend` with it. */
const furnished = Effect.gen(function* () {
  const place = yield* freshPath
  yield* withStore(place, fill)
  const command = (line: string, more: Readonly<Record<string, string>> = {}) =>
    run(line.split(" "), { MUSIC_DATABASE_PATH: place, ...more })
  return { place, command, json: (line: string) => Effect.map(command(`${line} --json`), ({ json }) => json) }
})

describe("music-backend reports", () => {
  it.scopedLive("lists them, newest first, control characters escaped, and pages with --after", function* () {
    const { command, json } = yield* furnished
    const listed = yield* command("reports list --plane production")
    expect(listed).toMatchObject({ exit: 0, err: "" })
    expect(listed.out.match(/^\w+/gm)).toEqual(["ID", "rep_alone", "rep_failed", "rep_filed"])
    expect(listed.out).toMatch(/^ID +CREATED +ISSUE +DELIVERY +REPORTER +PLANE +MESSAGE$/m)
    expect(listed.out).toContain("Red \\u001b[31m and \\u202eturned\\u202c second line")
    const first = yield* command("reports list --limit 3")
    const [, after = ""] = /More results: --after (\S+)/.exec(first.err) ?? []
    expect(yield* json(`reports list --limit 3 --after ${after}`)).toMatchObject({
      items: [
        {
          id: "rep_filed",
          created_at: "2026-11-21T07:30:00.000Z",
          ...{ plane: "production", reporter: "si:deejay", status: "filed", issue, removed: null },
          delivery: { id: "report:rep_filed", state: "delivered", finished_at: "2026-11-21T07:30:01.000Z" },
          summary: "Playback stops after a seek."
        }
      ],
      next: null
    })
    expect((yield* command("reports list --after nonsense")).exit).toBe(64)
    expect(yield* json("reports list --since 2026-11-22T00:00:00Z")).toEqual({ items: [], next: null })
    expect((yield* command("reports list --since 2026-11-21")).out.match(/^rep_/gm)).toHaveLength(4)
  })

  it.scopedLive("shows a report whole, on a terminal and as JSON; exports whole reports", function* () {
    const { command } = yield* furnished
    const shown = yield* command("reports show rep_alone")
    expect(shown.out).toMatch(/^status +stored\nreporter/m)
    expect(shown.out).toContain("message\n  Red \\u001b[31m and \\u202eturned\\u202c\n  second line\n")
    expect(shown.out).toContain("attachments\n  name a\\u0007.log, content one\n  two")
    const { json, out } = yield* command("reports show rep_alone --json")
    expect(out).toMatch(/^[\x20-\x7e\n]*$/)
    const { message, attachments } = awkward
    expect(json).toMatchObject({ id: "rep_alone", message, attachments, context: null, delivery: null })
    expect(json).not.toHaveProperty("summary")
    const exported = yield* command("reports export --plane production")
    expect(exported.out.split("\n").map((line): unknown => JSON.parse(line))).toMatchObject([
      { id: "rep_alone" },
      { id: "rep_failed" },
      { id: "rep_filed", context: { os: "linux" } }
    ])
    expect(exported.err).toBe("Reports written: 3")
  })
})

it.scopedLive("Each refusal has its exit code, and its reason with the next step", function* () {
  const { command } = yield* furnished
  const refusals: ReadonlyArray<readonly [line: string, exit: number, err: RegExp]> = [
    ["reports show rep_none", 1, /no report rep_none\. Find it with music-backend reports list\.$/],
    ["reports retry rep_plane", 1, /a testing plane and is never filed/],
    ["deliveries retry", 64, /an id or --failed is required/],
    ["deliveries retry report:rep_none", 1, /no delivery report:rep_none\. Find it with/],
    ["deliveries retry report:rep_filed", 1, /report:rep_filed is delivered: nothing to retry/],
    ["deliveries discard report:rep_filed", 1, /is delivered: nothing to discard/],
    ["deliveries discard report:rep_failed --reason \t", 64, /--reason is blank or longer than 500/],
    [`deliveries discard report:rep_failed --reason ${"x".repeat(501)}`, 64, /--reason is blank or longer/],
    // Without a filter and an id, with both, or without a reason.
    ["reports remove --reason x", 64, /an id or a filter is required/],
    ["reports remove rep_failed --anonymous --reason x", 64, /either an id or a filter/],
    ["reports remove --anonymous", 64, /--reason is missing/]
  ]
  for (const [line, exit, err] of refusals) {
    const refused = yield* command(line)
    expect([line, refused]).toMatchObject([line, { exit, out: "", err: expect.stringMatching(err) }])
  }
  // None of them has changed a delivery or removed a report.
  expect((yield* command("reports list")).out).not.toMatch(/discarded|removed/)
})

describe("music-backend deliveries", () => {
  it.scopedLive("shows and retries failed ones, and creates one for a report without", function* () {
    const { command, json } = yield* furnished
    expect(yield* json("deliveries show report:rep_failed")).toMatchObject(failed)
    // An earlier delivery that retention deleted may have filed it.
    const made = { id: "report:rep_alone", state: "unknown", attempts: 0 }
    expect(yield* json("reports retry rep_alone")).toMatchObject(made)
    const retried = yield* command("deliveries retry --failed", trackerSettings)
    expect(retried.out).toMatch(/^report:rep_failed .* unknown /m)
    expect(retried.err).toBe("A running server with a tracker sends it within 30 seconds.")
  })

  it.scopedLive("discards one for good: only a retry by its id brings it back", function* () {
    const { command, json } = yield* furnished
    const discard = "deliveries discard report:rep_failed --reason by-hand"
    expect((yield* command(discard)).out).toMatch(/^state +discarded$/m)
    const again = { exit: 1, err: expect.stringContaining("is discarded: nothing to discard. Its reason") }
    expect(yield* command("deliveries discard report:rep_failed --reason again")).toMatchObject(again)
    const retried = yield* command("deliveries retry --failed")
    expect(retried).toMatchObject({ exit: 0, out: "", err: "No failed deliveries." })

    const discarded = { ...failed, state: "discarded", last_failure: "by-hand" }
    expect(yield* json("deliveries list --state failed")).toEqual({ items: [], next: null })
    expect(yield* json("deliveries list --state discarded")).toMatchObject({ items: [discarded] })
    expect((yield* command("reports list")).out).toMatch(/^rep_failed .* discarded /m)
    expect((yield* command("deliveries retry report:rep_failed")).exit).toBe(0)
    expect(yield* json("deliveries show report:rep_failed")).toMatchObject({
      state: "unknown"
    })
  })

  it.scopedLive("says why the tracker is paused; a retry ends a pause after refused settings", function* () {
    const { command, place } = yield* furnished
    const now = Date.now()
    const inTenMinutes = now + 600_000
    const text = (millis: number) => new Date(millis).toISOString().replace(/\.\d+/, "")
    const pause = (failure: string, stopped: boolean) =>
      withStore(place, ({ destinations }) =>
        destinations.failed("tracker", { pausedUntil: inTenMinutes, stopped, failure })
      )
    const errorOf = (line: string) => Effect.map(command(line, trackerSettings), ({ err }) => err.trim())
    const retry = "deliveries retry report:rep_failed"

    yield* pause("rate limit", false)
    expect(yield* errorOf("deliveries list")).toBe("")
    const paused = `The tracker is paused until ${text(inTenMinutes)}: rate limit.`
    for (const line of [retry, "deliveries list", "deliveries show report:rep_failed"])
      expect([line, yield* errorOf(line)]).toEqual([line, paused])

    yield* pause("refused: 401 bad_credentials", true)
    expect(yield* errorOf(retry)).toBe("A running server with a tracker sends it within 30 seconds.")
    expect(yield* errorOf("deliveries list")).toBe("")
  })
})

/** The record of a list as JSON. */
const lists: ReadonlyArray<readonly [line: string, item: object]> = [
  [
    "deliveries list --state failed",
    { ...failed, kind: "report", subject: "rep_failed", attempts: 0, finished_at: "2026-11-21T07:30:01.000Z" }
  ],
  [
    "telemetry list",
    {
      ...{ table: "musicclidaemon", waiting: 1, waiting_bytes: 10 },
      ...{ accepted: 3, delivered: 0, duplicates: 0, expired: 0, refused: 2 }
    }
  ],
  [
    "telemetry refused --code invalid",
    {
      ...{ id: "b", table: "musicclidaemon", bytes: 10, code: "invalid" },
      ...{ refused_at: "2026-11-21T07:30:00.000Z", event_at: "1970-01-01T00:00:00.900Z" }
    }
  ],
  [
    "webhooks list",
    {
      ...{ event_id: event.eventId, event_type: event.eventType, aggregate, plane: "production" },
      ...{ received_at: "2026-11-21T07:30:00.000Z", occurred_at: "2026-09-25T10:15:30.123456Z" },
      ...{ organization_id: organisationUuid, data: { changed_fields: [] } }
    }
  ],
  [
    "recipients show si:deejay",
    {
      ...{ org_id: "acme", plane: "production", active: true, subscription_id: "sub_1" },
      ...{ public_id: "si:deejay", organization_id: organisationUuid },
      changed_at: "2026-11-21T07:30:00.000Z"
    }
  ]
]

it.scopedLive("Each list has a line for its record, and the names of the API as JSON", function* () {
  const { command, json, place } = yield* furnished
  yield* rawQuery(place, `UPDATE recipients SET changed_at = ${at}`)
  for (const [line, item] of lists) {
    expect((yield* command(line)).out.split("\n")).toHaveLength(2)
    expect(yield* json(line)).toMatchObject({ items: [item], next: null })
  }
})

describe("music-backend with a database", () => {
  it.scopedLive("creates no missing one", function* () {
    const place = yield* newPath
    const missing = expect.stringContaining(`${place} does not exist. Set MUSIC_DATABASE_PATH to`)
    expect(yield* run(["reports", "list"], { MUSIC_DATABASE_PATH: place })).toMatchObject({
      exit: 69,
      err: missing
    })
    expect(existsSync(place)).toBe(false)
  })

  it.scopedLive("makes the schema only on request, and names it", function* () {
    const migrate = (there: Readonly<Record<string, string>>) =>
      Effect.map(run(["migrate", "--json"], there), ({ json }) => json)
    const made = yield* newPath
    const { to, ...rest } = (yield* migrate({ MUSIC_DATABASE_PATH: made })) as { readonly to: number }
    expect(rest).toEqual({ database: `SQLite database ${made}`, from: 0, migrated: true })
    expect(yield* migrate({ MUSIC_DATABASE_PATH: made })).toMatchObject({ from: to, to, migrated: false })

    const empty = { MUSIC_DATABASE_URL: yield* postgres.emptyPath }
    const refused = yield* run(["reports", "list"], empty)
    expect(refused.exit).toBe(69)
    expect(refused.err).toMatch(/older schema .*\(0, needed \d+\)\. Run music-backend migrate, or/)
    const both = yield* Effect.all([migrate(empty), migrate(empty)], { concurrency: 2 })
    expect(both).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ from: 0, to, migrated: true }),
        expect.objectContaining({ from: to, to, migrated: false })
      ])
    )
  })
})

it.scopedLive("music-backend config shows each setting once, without secrets and bad values", function* () {
  const secret = `ask_${"s".repeat(43)}`
  const environment = {
    MUSIC_IAM_APP_SECRET: secret,
    MUSIC_IAM_URL: `https://user:${secret}@iam.example`,
    MUSIC_ORG_ID: "acme"
  }
  const { err, exit, out } = yield* run(["config"], environment)
  expect(out.split("\n")).toHaveLength(settingEntries.length + 1)
  for (const line of [
    /^MUSIC_IAM_APP_SECRET +set +environment /m,
    /^MUSIC_IAM_URL +bad: must be an https URL/m,
    /^MUSIC_ORG_ID +acme +environment/m,
    /^MUSIC_MIN_CLI +0\.1\.0 +default/m,
    /^MUSIC_GITHUB_TOKEN +unset +unset +/m
  ])
    expect(out).toMatch(line)
  expect(out).not.toContain("sssss")
  expect([exit, err]).toEqual([0, expect.stringContaining("The server does not start with these settings")])
})
