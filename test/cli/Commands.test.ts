import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { openApi } from "../../src/http/openapi/OpenApiDocument.ts"
import { settingEntries } from "../../src/layers/settings/SettingsTable.ts"
import { latestMigration } from "../../src/layers/store/migrations/Migrations.ts"
import { DeliveryUpdate, type StoreService, Verified } from "../../src/services/Store.ts"
import { openStore, rawQuery, sampleEvent, sampleReport } from "../layers/store/Stores.ts"
import { run } from "./Harness.ts"

const scratch = mkdtempSync(join(tmpdir(), "music-cli-"))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

const at = Date.parse("2026-11-21T07:30:00Z")
const plane = "0199b000-0000-7000-8000-00000000000e"
const issue = { number: 57, url: "https://github.com/harbor/music/issues/57" }

const freshPlace = Effect.sync(() => join(mkdtempSync(join(scratch, "db-")), "music.sqlite"))

/** Leases the one delivery that is due and ends it. */
const settle = ({ deliveries }: StoreService, update: (now: number) => DeliveryUpdate) =>
  Effect.gen(function* () {
    const [delivery] = yield* deliveries.lease({
      kinds: ["report"],
      count: 1,
      concurrency: 10,
      now: at + 10,
      leaseUntil: at + 60_000,
      owner: "test"
    })
    if (delivery !== undefined) yield* deliveries.update(delivery.id, delivery.fence, update(at + 1_000))
  })

/** A database with a filed report, one whose delivery failed, one without a delivery, and one of a testing plane. */
const makeTemplate = Effect.gen(function* () {
  const place = yield* freshPlace
  yield* Effect.scoped(
    Effect.gen(function* () {
      const store = yield* openStore(place)
      const add = (id: string, change: Parameters<typeof sampleReport>[0], deliver: boolean) =>
        store.reports.admit(sampleReport({ id, keyDigest: id, ...change }), deliver)
      yield* add("rep_filed", { createdAt: at, reporter: Verified({ publicId: "si:deejay" }) }, true)
      yield* settle(store, (now) =>
        DeliveryUpdate.Delivered({ at: now, issue: Option.some(issue), sweepAt: Option.none() })
      )
      yield* add("rep_failed", { createdAt: at + 1 }, true)
      yield* settle(store, (now) => DeliveryUpdate.Failed({ at: now, failure: "422 validation_failed" }))
      yield* add(
        "rep_alone",
        {
          createdAt: at + 2,
          content: {
            message: "Red \u001b[31m and \u202eturned\u202c\nsecond line",
            pr: null,
            attachments: [{ name: "a\u0007.log", content: "one\ntwo" }],
            context: null
          }
        },
        false
      )
      yield* add("rep_plane", { createdAt: at + 3, plane }, false)
      yield* store.webhooks.receive(sampleEvent({ receivedAt: at, data: '{"changed_fields":[]}' }), [])
      yield* store.recipients.activate({
        plane: "production",
        organisation: "acme",
        organisationUuid: "0199a0aa-0000-7000-8000-000000000001",
        publicId: "si:deejay",
        subscriptionId: "sub_1"
      })
    })
  ).pipe(Effect.orDie)
  return place
})

let template: string | undefined

/** A copy of that database, which is made once: making it takes longer than most tests. */
const furnished = Effect.gen(function* () {
  template ??= yield* makeTemplate
  const place = yield* freshPlace
  copyFileSync(template, place)
  return { place, environment: { MUSIC_DATABASE_PATH: place } }
})

describe("music-backend reports", () => {
  it.live("lists them in aligned columns, newest first, with control characters escaped", function* () {
    const { environment } = yield* furnished
    const { err, exit, out } = yield* run(["reports", "list", "--plane", "production"], environment)
    expect(out.split("\n")).toEqual([
      "ID          CREATED               ISSUE  DELIVERY   REPORTER   MESSAGE",
      "rep_alone   2026-11-21T07:30:00Z  -      -          c:ana      Red \\x1b[31m and \\u202eturned\\u202c second line",
      "rep_failed  2026-11-21T07:30:00Z  -      failed     c:ana      Playback stops after a seek.",
      "rep_filed   2026-11-21T07:30:00Z  #57    delivered  si:deejay  Playback stops after a seek."
    ])
    expect(err).toBe("")
    expect(exit).toBe(0)
  })

  it.live("pages with --after, and as JSON with next", function* () {
    const { environment } = yield* furnished
    const first = yield* run(["reports", "list", "--limit", "3"], environment)
    const [, after = ""] = /More results: --after (\S+)/.exec(first.err) ?? []
    const second = yield* run(["reports", "list", "--limit", "3", "--after", after, "--json"], environment)
    expect(second.json).toEqual({
      items: [
        {
          id: "rep_filed",
          created_at: "2026-11-21T07:30:00.000Z",
          plane: "production",
          reporter: "si:deejay",
          source: "cli",
          request_id: "req_1",
          status: "filed",
          issue,
          delivery: {
            id: "report:rep_filed",
            kind: "report",
            subject: "rep_filed",
            state: "delivered",
            attempts: 0,
            looks: 0,
            created_at: "2026-11-21T07:30:00.000Z",
            available_at: "2026-11-21T07:30:00.000Z",
            sent_at: null,
            last_failure: null,
            discarded_at: null,
            finished_at: "2026-11-21T07:30:01.000Z"
          },
          removed: null,
          summary: "Playback stops after a seek."
        }
      ],
      next: null
    })
    const bad = yield* run(["reports", "list", "--after", "nonsense"], environment)
    expect(bad.exit).toBe(64)
    expect(bad.err).toMatch(
      /^music-backend: the cursor of --after does not belong to this list\. Use the cursor /
    )
  })

  it.live("shows a report with its content, on a terminal and as JSON", function* () {
    const { environment } = yield* furnished
    const shown = yield* run(["reports", "show", "rep_alone"], environment)
    expect(shown.out).toBe(
      [
        "id        rep_alone",
        "created   2026-11-21T07:30:00Z",
        "reporter  c:ana",
        "source    cli",
        "plane     production",
        "request   req_1",
        "issue     not filed",
        "delivery  none",
        "",
        "Message",
        "  Red \\x1b[31m and \\u202eturned\\u202c",
        "  second line",
        "",
        "Attachment a\\x07.log, 7 B",
        "  one",
        "  two"
      ].join("\n")
    )
    const { json, out } = yield* run(["reports", "show", "rep_alone", "--json"], environment)
    expect(out).toMatch(/^[\x20-\x7e\n]*$/)
    expect(json).toMatchObject({
      id: "rep_alone",
      message: "Red \u001b[31m and \u202eturned\u202c\nsecond line",
      attachments: [{ name: "a\u0007.log", content: "one\ntwo" }],
      context: null,
      delivery: null
    })
    const missing = yield* run(["reports", "show", "rep_none"], environment)
    expect([missing.exit, missing.err]).toEqual([
      1,
      "music-backend: no report rep_none. Find it with music-backend reports list."
    ])
  })

  it.live("exports whole reports, one JSON object a line", function* () {
    const { environment } = yield* furnished
    const { err, out } = yield* run(["reports", "export", "--plane", "production"], environment)
    const lines = out.split("\n").map((line): unknown => JSON.parse(line))
    expect(lines).toMatchObject([
      { id: "rep_alone" },
      { id: "rep_failed" },
      { id: "rep_filed", context: { os: "linux" } }
    ])
    expect(err).toBe("3 reports written")
  })

  it.live("retries a failed delivery, creates a missing one, and explains each refusal", function* () {
    const { environment } = yield* furnished
    const failed = yield* run(["reports", "retry", "rep_failed"], environment)
    expect([failed.exit, failed.out]).toEqual([0, "rep_failed is due now (unknown)"])
    expect(failed.err).toContain("MUSIC_GITHUB_TOKEN is not set here")
    const alone = yield* run(["reports", "retry", "rep_alone", "--json"], environment)
    // An earlier delivery that retention deleted may have filed it.
    expect(alone.json).toMatchObject({ id: "report:rep_alone", state: "unknown", attempts: 0 })
    const filed = yield* run(["reports", "retry", "rep_filed"], environment)
    expect([filed.exit, filed.err]).toEqual([
      1,
      `music-backend: rep_filed is filed already. See ${issue.url}.`
    ])
    const testing = yield* run(["reports", "retry", "rep_plane"], environment)
    expect([testing.exit, testing.err]).toEqual([
      1,
      "music-backend: rep_plane belongs to a testing plane and is never filed. Choose a report of production."
    ])
  })
})

describe("music-backend deliveries", () => {
  it.live("lists and shows them, retries all failed ones, and discards one for good", function* () {
    const { environment } = yield* furnished
    const listed = yield* run(["deliveries", "list", "--state", "failed"], environment)
    expect(listed.out.split("\n")).toEqual([
      "ID                 CREATED               STATE   SENT  NEXT  LAST FAILURE",
      "report:rep_failed  2026-11-21T07:30:00Z  failed  0     -     422 validation_failed"
    ])
    const shown = yield* run(["deliveries", "show", "report:rep_failed", "--json"], environment)
    expect(shown.json).toMatchObject({
      id: "report:rep_failed",
      state: "failed",
      last_failure: "422 validation_failed",
      finished_at: "2026-11-21T07:30:01.000Z"
    })
    const retried = yield* run(["deliveries", "retry", "--failed"], {
      ...environment,
      MUSIC_GITHUB_TOKEN: "token",
      MUSIC_GITHUB_REPOSITORY: "harbor/music"
    })
    expect([retried.out, retried.err]).toEqual([
      "report:rep_failed is due now (unknown)",
      "A running server sends it within 30 seconds."
    ])
    const discarded = yield* run(
      ["deliveries", "discard", "report:rep_failed", "--reason", "seen by hand"],
      environment
    )
    expect(discarded.out).toBe(
      "report:rep_failed is discarded and will not be tried again. Its report is kept."
    )
    const after = yield* run(["deliveries", "show", "report:rep_failed"], environment)
    expect(after.out).toMatch(/^state +discarded$/m)
    expect(after.out).toMatch(/^last failure +seen by hand$/m)
  })

  it.live("says until when and why the tracker is paused, where a delivery waits for it", function* () {
    const { environment, place } = yield* furnished
    const list = run(["deliveries", "list"], environment)
    const now = Date.now()
    const paused = (trouble: { readonly until: number; readonly failure: string }) =>
      Effect.scoped(
        Effect.flatMap(openStore(place), ({ destinations }) =>
          destinations.failed("tracker", {
            now,
            pausedUntil: trouble.until,
            stopped: false,
            failure: trouble.failure
          })
        )
      )
    yield* paused({ until: now + 600_000, failure: "rate limit" })
    expect((yield* list).err).toBe("")
    yield* run(["deliveries", "retry", "report:rep_failed"], environment)
    const end = new Date(now + 600_000).toISOString().replace(/\.\d+/, "")
    const { err, out } = yield* list
    expect(err.trim()).toBe(`The tracker is paused until ${end}: rate limit.`)
    expect(out).toMatch(new RegExp(`^report:rep_failed .* ${end} `, "m"))
    expect((yield* run(["deliveries", "show", "report:rep_failed"], environment)).out).toMatch(
      new RegExp(`^next +${end}$`, "m")
    )

    const until = yield* Effect.scoped(
      Effect.flatMap(openStore(place), ({ destinations }) => {
        const pace = { now: now - 1_000, spacing: 1_000, hourly: 1 }
        return Effect.zipRight(
          destinations.reserveWrite("tracker", pace),
          destinations.reserveWrite("tracker", { ...pace, now })
        )
      })
    )
    const withTracker = {
      ...environment,
      MUSIC_GITHUB_TOKEN: "token",
      MUSIC_GITHUB_REPOSITORY: "harbor/music"
    }
    expect((yield* run(["deliveries", "retry", "report:rep_failed"], withTracker)).err).toMatch(
      /^The tracker is paused until .*: the writes of this hour are used up/
    )
    const hour = new Date(until).toISOString().replace(/\.\d+/, "")
    expect((yield* list).err).toContain(`paused until ${hour}: the writes of this hour are used up`)
  })

  it.live(
    "ends the tracker's pause after refused settings with a retry, and says when another pause ends",
    function* () {
      const { environment, place } = yield* furnished
      const withTracker = {
        ...environment,
        MUSIC_GITHUB_TOKEN: "token",
        MUSIC_GITHUB_REPOSITORY: "harbor/music"
      }
      const now = Date.now()
      const end = new Date(now + 300_000).toISOString().replace(/\.\d+/, "")
      const pausedBy = (failure: string, stopped: boolean) =>
        Effect.scoped(
          Effect.flatMap(openStore(place), ({ destinations }) =>
            destinations.failed("tracker", { now, pausedUntil: now + 300_000, stopped, failure })
          )
        )
      yield* pausedBy("rate limit", false)
      for (const command of [
        ["deliveries", "retry", "report:rep_failed"],
        ["reports", "retry", "rep_failed"]
      ])
        expect((yield* run(command, withTracker)).err).toBe(`The tracker is paused until ${end}: rate limit.`)
      yield* pausedBy("refused: 401 bad_credentials", true)
      expect((yield* run(["deliveries", "list"], environment)).err).toContain("401 bad_credentials")
      expect((yield* run(["deliveries", "retry", "report:rep_failed"], withTracker)).err).toBe(
        "A running server sends it within 30 seconds."
      )
      expect((yield* run(["deliveries", "list"], environment)).err).toBe("")
    }
  )

  it.live("retries a discarded delivery only by its id, and lists it apart from failed ones", function* () {
    const { environment } = yield* furnished
    yield* run(["deliveries", "discard", "report:rep_failed", "--reason", "filed by hand"], environment)
    const retried = yield* run(["deliveries", "retry", "--failed"], environment)
    expect([retried.exit, retried.out, retried.err]).toEqual([0, "", "No deliveries failed."])

    const failed = yield* run(["deliveries", "list", "--state", "failed"], environment)
    expect([failed.out, failed.err]).toEqual(["", "No deliveries."])
    const discarded = yield* run(["deliveries", "list", "--discarded"], environment)
    const { out: all } = yield* run(["deliveries", "list"], environment)
    expect(discarded.out.split("\n")).toEqual([
      "ID                 CREATED               STATE      SENT  NEXT  LAST FAILURE",
      "report:rep_failed  2026-11-21T07:30:00Z  discarded  0     -     filed by hand"
    ])
    expect(all).toContain("\nreport:rep_failed  2026-11-21T07:30:00Z  discarded ")
    const both = yield* run(["deliveries", "list", "--state", "failed", "--discarded"], environment)
    expect([both.exit, both.out]).toEqual([64, ""])
    const reports = yield* run(["reports", "list"], environment)
    expect(reports.out).toMatch(/^rep_failed .* - +discarded +c:ana /m)
    const report = yield* run(["reports", "show", "rep_failed"], environment)
    expect(report.out).toMatch(/^delivery +discarded, 0 sent \(report:rep_failed\)$/m)
    const asJson = yield* run(["deliveries", "show", "report:rep_failed", "--json"], environment)
    expect(asJson.json).toMatchObject({
      state: "failed",
      discarded_at: expect.stringMatching(/^\d{4}-.*Z$/),
      last_failure: "filed by hand"
    })

    const { json: checks } = yield* run(["check", "--json"], environment)
    expect(checks).toMatchObject({
      checks: expect.arrayContaining([expect.objectContaining({ name: "deliveries", status: "PASS" })])
    })

    const named = yield* run(["deliveries", "retry", "report:rep_failed"], environment)
    expect([named.exit, named.out]).toEqual([0, "report:rep_failed is due now (unknown)"])
    const { json } = yield* run(["deliveries", "show", "report:rep_failed", "--json"], environment)
    expect(json).toMatchObject({ state: "unknown", discarded_at: null })
  })

  it.live("explains each refusal", function* () {
    const { environment } = yield* furnished
    const attempts = [
      { args: ["retry"], exit: 64, err: /ids or --failed are required/ },
      { args: ["retry", "report:rep_none"], exit: 1, err: /no delivery report:rep_none\. Find it with/ },
      {
        args: ["retry", "report:rep_filed"],
        exit: 1,
        err: /report:rep_filed is delivered: nothing to retry/
      },
      { args: ["discard", "report:rep_filed"], exit: 1, err: /is delivered: nothing to discard/ },
      { args: ["discard", "report:rep_failed", "--reason", " "], exit: 64, err: /--reason is empty/ }
    ]
    for (const { args, err, exit } of attempts) {
      const ran = yield* run(["deliveries", ...args], environment)
      expect(ran.err).toMatch(err)
      expect([ran.exit, ran.out]).toEqual([exit, ""])
    }
  })
})

describe("music-backend webhooks and recipients", () => {
  it.live("list the received webhooks, and the registrations of an actor", function* () {
    const { environment } = yield* furnished
    const listed = yield* run(["webhooks", "list"], environment)
    expect(listed.out).toMatch(
      /^RECEIVED +EVENT +TYPE +ABOUT\n2026-11-21T07:30:00Z +0199a0c4-\S+ +organization/
    )
    const asJson = yield* run(["webhooks", "list", "--json"], environment)
    expect(asJson.json).toMatchObject({
      items: [
        {
          plane: "production",
          received_at: "2026-11-21T07:30:00.000Z",
          aggregate: { type: "organization_membership", version: 4 },
          data: { changed_fields: [] }
        }
      ],
      next: null
    })
    const shown = yield* run(["recipients", "show", "si:deejay"], environment)
    expect(shown.out).toMatch(
      /^ORGANISATION +PLANE +STATE +CHANGED +SUBSCRIPTION\nacme +production +active +\S+Z +sub_1$/
    )
    const other = yield* run(["recipients", "show", "si:lyra"], environment)
    expect([other.exit, other.out]).toEqual([1, ""])
    expect(other.err).toMatch(/^music-backend: si:lyra was never registered here/)
  })
})

describe("music-backend with a database", () => {
  it.live("reports a missing database, creates none, and names the next step", function* () {
    const place = yield* freshPlace
    const { err, exit } = yield* run(["reports", "list"], { MUSIC_DATABASE_PATH: place })
    expect([exit, err]).toEqual([
      69,
      `music-backend: SQLite database ${place} does not exist. Set MUSIC_DATABASE_PATH to the server's file, or create one with music-backend migrate.`
    ])
    expect(existsSync(place)).toBe(false)
  })

  it.live("reports a bad address as that setting, and needs no other setting", function* () {
    const { err, exit } = yield* run(["deliveries", "list"], { MUSIC_DATABASE_URL: "mysql://x:secret@y/z" })
    expect(exit).toBe(78)
    expect(err).toMatch(
      /^music-backend: MUSIC_DATABASE_URL: must be an address .* See music-backend config\.$/
    )
    expect(err).not.toContain("secret")
  })

  it.live("migrates an older version only on request, and names both versions", function* () {
    const { environment, place } = yield* furnished
    const current = yield* run(["migrate"], environment)
    expect([current.exit, current.out]).toEqual([
      0,
      `SQLite database ${place} is at ${latestMigration} already`
    ])

    const old = yield* freshPlace
    const script = readFileSync(
      new URL("../layers/store/migrations/fixtures/0001.sql", import.meta.url),
      "utf8"
    )
    yield* rawQuery(old, script)
    const there = { MUSIC_DATABASE_PATH: old }
    const refused = yield* run(["reports", "list"], there)
    expect(refused.exit).toBe(69)
    expect(refused.err).toMatch(/older schema .*\(1, needed \d+\)\. Run music-backend migrate, or/)
    const checked = yield* run(["check", "--json"], there)
    expect(checked.json).toMatchObject({
      checks: expect.arrayContaining([expect.objectContaining({ name: "database", status: "WARN" })])
    })
    const migrated = yield* run(["migrate"], there)
    expect([migrated.exit, migrated.out]).toEqual([
      0,
      `SQLite database ${old}: migrated from 1, now at ${latestMigration}`
    ])

    const made = yield* freshPlace
    const asJson = yield* run(["migrate", "--json"], { MUSIC_DATABASE_PATH: made })
    expect(asJson.json).toEqual({
      database: `SQLite database ${made}`,
      from: 0,
      to: latestMigration,
      migrated: true
    })
  })

  it.live("backs up, verifies and restores, and replaces nothing without --overwrite", function* () {
    const { environment, place } = yield* furnished
    const copy = `${place}.backup`
    const made = yield* run(["backup", copy, "--json"], environment)
    expect(made.json).toMatchObject({ file: copy, schema: latestMigration, rows: { reports: 4 } })
    const again = yield* run(["backup", copy], environment)
    expect([again.exit, again.err]).toEqual([
      69,
      `music-backend: the file ${copy} exists already. Choose another name, or add --overwrite.`
    ])
    const verified = yield* run(["restore", copy, "--verify"], {})
    expect(verified.exit).toBe(0)
    expect(verified.out).toMatch(
      /^This backup is complete and can be restored\.\nfile +\S+\nsize +\S+ kB\nschema +\d+\nrows +.*4 reports/
    )

    yield* run(["deliveries", "discard", "report:rep_failed", "--reason", "after the copy"], environment)
    const refused = yield* run(["restore", copy], environment)
    expect(refused.exit).toBe(69)
    const restored = yield* run(["restore", copy, "--overwrite", "--json"], environment)
    expect(restored.json).toMatchObject({ file: place, before: expect.stringContaining(place) })
    const { json } = yield* run(["deliveries", "show", "report:rep_failed", "--json"], environment)
    expect(json).toMatchObject({ last_failure: "422 validation_failed" })

    writeFileSync(copy, "not a database")
    const damaged = yield* run(["restore", copy, "--verify"], {})
    expect(damaged.exit).toBe(1)
    expect(damaged.err).toMatch(/^music-backend: .*\. [A-Z].*\.$/)
  })
})

describe("music-backend config and openapi", () => {
  it.live("config shows every setting once, without secrets and without bad values", function* () {
    const secret = `ask_${"s".repeat(43)}`
    const environment = {
      MUSIC_IAM_APP_SECRET: secret,
      MUSIC_IAM_URL: `https://user:${secret}@iam.example`,
      MUSIC_ORG_ID: "acme"
    }
    // A rare variable appears when it is set, with its credentials unseen.
    const rare = yield* run(["config"], { ...environment, HTTPS_PROXY: `http://user:${secret}@proxy` })
    expect(rare.out).toMatch(/^HTTPS_PROXY +set +environment/m)
    expect(rare.out).not.toContain("sssss")
    const { err, exit, out } = yield* run(["config"], environment)
    expect(out.split("\n")).toHaveLength(settingEntries.filter(({ rare }) => !rare).length + 1)
    expect(out).toMatch(/^MUSIC_IAM_APP_SECRET +set +environment +this application's secret at IAM$/m)
    expect(out).toMatch(/^MUSIC_IAM_URL +bad: must be an https URL/m)
    expect(out).toMatch(/^MUSIC_ORG_ID +acme +environment/m)
    expect(out).toMatch(/^MUSIC_MIN_CLI +0\.1\.0 +default/m)
    expect(out).toMatch(/^MUSIC_GITHUB_TOKEN +unset +- +/m)
    expect(out).not.toContain("sssss")
    expect(err).toContain("The server does not start with these settings")
    expect(exit).toBe(0)

    const changed = yield* run(["config", "--changed", "--json"], environment)
    expect(changed.json).toMatchObject({
      items: expect.arrayContaining([
        {
          name: "MUSIC_IAM_APP_SECRET",
          value: null,
          source: "environment",
          file: null,
          default: null,
          required: true,
          secret: true,
          problem: null,
          meaning: "this application's secret at IAM"
        },
        expect.objectContaining({ name: "MUSIC_TING_URL", source: "unset", problem: "is required" })
      ]),
      next: null
    })
  })

  it.live("openapi prints the document that the server serves", function* () {
    const { json } = yield* run(["openapi"], {})
    expect(json).toEqual(JSON.parse(JSON.stringify(openApi())))
  })
})
