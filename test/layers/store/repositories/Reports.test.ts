import { assert } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import {
  Anonymous,
  ReportAdmission,
  type Reporter,
  Unverified,
  Verified
} from "../../../../src/services/Store.ts"
import { onBoth, sampleLease, sampleReport } from "../Stores.ts"

onBoth("Reports", ({ freshPath, freshStore, openStore, rawQuery, withStore }) => {
  it.scoped("a report is read as it was stored, also after a restart", function* () {
    const path = yield* freshPath
    const { contentDigest: _, keyDigest: __, ...content } = sampleReport()
    const expected = { ...content, issue: Option.none() }
    const admission = yield* withStore(path, ({ reports }) => reports.admit(sampleReport(), false))
    deepStrictEqual(admission, ReportAdmission.Stored({ report: expected }))
    yield* withStore(path, ({ reports }) =>
      Effect.gen(function* () {
        deepStrictEqual(yield* reports.find("rep_1"), Option.some(expected))
        deepStrictEqual(yield* reports.find("rep_2"), Option.none())
        const absent = { message: "Only a message.", pr: null, attachments: [], context: null }
        yield* reports.admit(sampleReport({ id: "rep_3", keyDigest: "3", content: absent }), false)
        deepStrictEqual(
          Option.map(yield* reports.find("rep_3"), (found) => found.content),
          Option.some(absent)
        )
        deepStrictEqual(
          yield* reports.admit(sampleReport({ id: "rep_2" }), false),
          ReportAdmission.Replayed({ report: expected, movedUp: false })
        )
      })
    )
  })

  const reporters: Readonly<Record<string, Reporter>> = {
    ana: Verified({ publicId: "c:ana" }),
    eva: Verified({ publicId: "c:eva" }),
    anonymous: Anonymous(),
    unverified: Unverified()
  }
  /** Reports under one key, each "reporter content"; then the result of the last one: an admission, and for a replay the report and its reporter afterwards. */
  const cases: Readonly<Record<string, ReadonlyArray<readonly [reports: string, expected: string]>>> = {
    "the same content by the same reporter": [
      ["ana A, ana A", "Replayed rep_1 ana"],
      ["anonymous A, anonymous A", "Replayed rep_1 anonymous"],
      ["unverified A, unverified A", "Replayed rep_1 unverified"]
    ],
    "the same content, and one of both is unverified": [
      ["unverified A, ana A", "Replayed rep_1 ana"],
      ["ana A, unverified A", "Replayed rep_1 ana"],
      ["unverified A, anonymous A", "Replayed rep_1 unverified"],
      ["anonymous A, unverified A", "Replayed rep_1 anonymous"]
    ],
    "the same content by another reporter": [
      ["ana A, eva A", "Stored"],
      ["ana A, anonymous A", "Stored"],
      ["anonymous A, ana A", "Stored"]
    ],
    "other content by the same reporter": [
      ["ana A, ana B", "Conflict"],
      ["anonymous A, anonymous B", "Conflict"],
      ["unverified A, unverified B", "Conflict"]
    ],
    "other content by another reporter": [
      ["ana A, eva B", "Stored"],
      ["ana A, anonymous B", "Stored"],
      ["ana A, unverified B", "Stored"],
      ["anonymous A, ana B", "Stored"],
      ["anonymous A, unverified B", "Stored"],
      ["unverified A, ana B", "Stored"],
      ["unverified A, anonymous B", "Stored"]
    ],
    "several candidates: the reporter's own report first, then a verified one, then the oldest": [
      ["ana A, eva A, eva A", "Replayed rep_2 eva"],
      ["ana A, anonymous A, anonymous A", "Replayed rep_2 anonymous"],
      ["anonymous A, ana A, unverified A", "Replayed rep_2 ana"],
      ["ana A, eva A, unverified A", "Replayed rep_1 ana"]
    ],
    "an unverified report of the same content before a conflict with the reporter's own": [
      ["unverified A, ana B, ana A", "Replayed rep_1 ana"],
      ["unverified A, ana B, ana A, ana B", "Replayed rep_2 ana"],
      ["unverified A, ana B, ana A, ana C", "Conflict"]
    ],
    "an unverified report that a verified reporter has repeated": [
      ["unverified A, ana A, eva A", "Stored"],
      ["unverified A, ana A, ana A", "Replayed rep_1 ana"],
      ["unverified A, ana A, eva A, unverified A", "Replayed rep_1 ana"]
    ]
  }

  for (const [name, some] of Object.entries(cases))
    it.scoped(`under one key, ${name}`, function* () {
      const { reports } = yield* freshStore
      for (const [given, expected] of some) {
        const id = (index: number) => `${given} rep_${index}`
        const admissions = yield* Effect.forEach(given.split(", "), (pair, index) => {
          const [who = "", contentDigest = ""] = pair.split(" ")
          const reporter = reporters[who] ?? Anonymous()
          return reports.admit(
            sampleReport({
              id: id(index + 1),
              createdAt: index,
              keyDigest: given,
              reporter,
              contentDigest
            }),
            false
          )
        })
        const last = admissions.at(-1)
        const [answer, of, who = ""] = expected.split(" ")
        assert.strictEqual(last?._tag, answer, given)
        const lastId = id(admissions.length)
        if (last?._tag === "Replayed") {
          assert.strictEqual(last.report.id, `${given} ${of}`)
          deepStrictEqual(last.report.reporter, reporters[who])
          deepStrictEqual(yield* reports.find(last.report.id), Option.some(last.report))
        } else assert.strictEqual(Option.isSome(yield* reports.find(lastId)), answer === "Stored", given)
      }
    })

  it.scoped("under one key, the oldest candidate is the one that was created first", function* () {
    const { reports } = yield* freshStore
    for (const [id, publicId, createdAt] of [
      ["rep_1", "c:ana", 2_000],
      ["rep_2", "c:eva", 1_000]
    ] as const)
      yield* reports.admit(sampleReport({ id, createdAt, reporter: Verified({ publicId }) }), false)
    const admission = yield* reports.admit(sampleReport({ id: "rep_3", reporter: Unverified() }), false)
    assert.strictEqual(admission._tag === "Replayed" && admission.report.id, "rep_2")
  })

  it.scoped(
    "keys are independent of others and of other planes; only a stored report is delivered",
    function* () {
      const { deliveries, reports } = yield* freshStore
      const admissions = yield* Effect.forEach(
        [
          [{ id: "rep_1" }, true],
          [{ id: "rep_2", plane: "env-1" }, false],
          [{ id: "rep_3", keyDigest: "other" }, false],
          [{ id: "rep_4" }, true],
          [{ id: "rep_5", contentDigest: "other" }, true]
        ] as const,
        ([change, delivered]) => reports.admit(sampleReport(change), delivered)
      )
      deepStrictEqual(
        admissions.map(({ _tag }) => _tag),
        ["Stored", "Stored", "Stored", "Replayed", "Conflict"]
      )
      const leased = yield* deliveries.lease(sampleLease())
      deepStrictEqual(
        leased.map(({ subject }) => subject),
        ["rep_1"]
      )
    }
  )

  it.scopedLive("an interrupted caller stores a report with its delivery, or nothing", function* () {
    const path = yield* freshPath
    const { reports } = yield* openStore(path)
    for (let index = 0; index < 20; index += 1) {
      const report = sampleReport({ id: `rep_${index}`, keyDigest: `${index}` })
      const fiber = yield* Effect.fork(reports.admit(report, true))
      if (index % 2 === 0) yield* Effect.sleep(index % 5)
      yield* Fiber.interrupt(fiber)
    }
    // No connection leaks.
    yield* reports.admit(sampleReport({ id: "rep_last" }), true)
    // One statement, because the last commit of an interrupted caller may still be under way.
    const [row] = yield* rawQuery(
      path,
      `SELECT (SELECT COUNT(*) FROM reports WHERE id NOT IN (SELECT subject FROM deliveries))
          + (SELECT COUNT(*) FROM deliveries WHERE subject NOT IN (SELECT id FROM reports)) AS partial`
    )
    assert.strictEqual(row?.partial, 0)
  })

  /** The counted size of a report with this message. */
  const contentOf = (message: string) => ({ message, pr: null, attachments: [], context: null })
  const bytesOf = (message: string) => Buffer.byteLength(JSON.stringify(contentOf(message))) + 1_000

  it.scoped("beyond the bound nothing new is stored, and what is known is replayed", function* () {
    const { deliveries, reports } = yield* freshStore
    const admit = (id: string, limit: number, message = "short", hasQuota = true) =>
      Effect.map(
        reports.admit(
          sampleReport({ id, keyDigest: id, content: contentOf(message), contentDigest: message }),
          true,
          { unboundUpTo: limit, reporter: limit, network: limit, all: limit, withNewcomers: limit },
          hasQuota
        ),
        (admission) => (admission._tag === "Full" ? admission.limit : admission._tag)
      )
    const limit = bytesOf("short") * 2
    const answers = yield* Effect.forEach(["one", "two", "three"], (id) => admit(id, limit))
    deepStrictEqual(answers, ["Stored", "Stored", "room"])
    assert.strictEqual(yield* reports.storedBytes, limit)
    deepStrictEqual(yield* deliveries.counts, [{ kind: "report", state: "waiting", count: 2 }])
    deepStrictEqual(yield* admit("one", 0), "Replayed")
    deepStrictEqual(yield* admit("one", 0, "other"), "Conflict")
    const message = "ärger 🎵"
    const room = limit + bytesOf(message)
    deepStrictEqual(yield* admit("three", room, message, false), "room", "without quota nothing is new")
    deepStrictEqual(yield* admit("three", room - 1, message), "room")
    deepStrictEqual(yield* admit("three", room, message), "Stored")
    assert.isTrue(yield* reports.knowsKey(sampleReport({ keyDigest: "three" })))
    assert.isFalse(yield* reports.knowsKey(sampleReport({ keyDigest: "three", plane: "env-1" })))
  })
})
