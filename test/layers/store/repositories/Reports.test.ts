import { assert, it } from "@effect/vitest"
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
import { onBoth, sampleReport } from "../Stores.ts"

const ana = Verified({ publicId: "c:ana" })
const eva = Verified({ publicId: "c:eva" })
const nobody = Anonymous()
const unsure = Unverified()

const nameOf = (reporter: Reporter) => (reporter._tag === "Verified" ? reporter.publicId : reporter._tag)

onBoth("Reports", ({ freshPath, freshStore, openStore, withStore }) => {
  it.scoped("a report is found as it was stored, also after a restart", () =>
    Effect.gen(function* () {
      const path = yield* freshPath
      const { contentDigest: _, keyDigest: __, ...content } = sampleReport()
      const expected = { ...content, issue: Option.none() }
      const admission = yield* withStore(path, ({ reports }) => reports.admit(sampleReport(), false))
      deepStrictEqual(admission, ReportAdmission.Stored({ report: expected }))
      yield* withStore(path, ({ reports }) =>
        Effect.gen(function* () {
          deepStrictEqual(yield* reports.find("rep_1"), Option.some(expected))
          deepStrictEqual(yield* reports.find("rep_2"), Option.none())
          deepStrictEqual(
            yield* reports.admit(sampleReport({ id: "rep_2" }), false),
            ReportAdmission.Replayed({ report: expected })
          )
        })
      )
    })
  )

  it.scoped("absent parts of the content stay absent", () =>
    Effect.gen(function* () {
      const { reports } = yield* freshStore
      const content = { message: "Only a message.", pr: null, attachments: [], context: null }
      yield* reports.admit(sampleReport({ content }), false)
      const found = yield* reports.find("rep_1")
      deepStrictEqual(
        Option.map(found, (report) => report.content),
        Option.some(content)
      )
    })
  )

  interface Case {
    /** Stored first, one after the other under one key: reporter and content digest. */
    readonly before: ReadonlyArray<readonly [Reporter, string]>
    readonly next: readonly [Reporter, string]
    readonly answer: "Stored" | "Replayed" | "Conflict"
    /** Which of the earlier ones is replayed. */
    readonly of?: string
    /** The replayed row's reporter afterwards. */
    readonly named?: string
  }
  const cases: ReadonlyArray<Case> = [
    // same content, equal reporters
    { before: [[ana, "A"]], next: [ana, "A"], answer: "Replayed", of: "rep_1", named: "c:ana" },
    { before: [[nobody, "A"]], next: [nobody, "A"], answer: "Replayed", of: "rep_1", named: "Anonymous" },
    { before: [[unsure, "A"]], next: [unsure, "A"], answer: "Replayed", of: "rep_1", named: "Unverified" },
    // same content, either unverified
    { before: [[unsure, "A"]], next: [ana, "A"], answer: "Replayed", of: "rep_1", named: "c:ana" },
    { before: [[ana, "A"]], next: [unsure, "A"], answer: "Replayed", of: "rep_1", named: "c:ana" },
    { before: [[unsure, "A"]], next: [nobody, "A"], answer: "Replayed", of: "rep_1", named: "Unverified" },
    { before: [[nobody, "A"]], next: [unsure, "A"], answer: "Replayed", of: "rep_1", named: "Anonymous" },
    // same content, somebody else
    { before: [[ana, "A"]], next: [eva, "A"], answer: "Stored" },
    { before: [[ana, "A"]], next: [nobody, "A"], answer: "Stored" },
    { before: [[nobody, "A"]], next: [ana, "A"], answer: "Stored" },
    // other content, equal reporters
    { before: [[ana, "A"]], next: [ana, "B"], answer: "Conflict" },
    { before: [[nobody, "A"]], next: [nobody, "B"], answer: "Conflict" },
    { before: [[unsure, "A"]], next: [unsure, "B"], answer: "Conflict" },
    // other content, somebody else
    { before: [[ana, "A"]], next: [eva, "B"], answer: "Stored" },
    { before: [[ana, "A"]], next: [nobody, "B"], answer: "Stored" },
    { before: [[ana, "A"]], next: [unsure, "B"], answer: "Stored" },
    { before: [[nobody, "A"]], next: [ana, "B"], answer: "Stored" },
    { before: [[nobody, "A"]], next: [unsure, "B"], answer: "Stored" },
    { before: [[unsure, "A"]], next: [ana, "B"], answer: "Stored" },
    { before: [[unsure, "A"]], next: [nobody, "B"], answer: "Stored" },
    // several candidates: one's own first
    {
      before: [
        [ana, "A"],
        [eva, "A"]
      ],
      next: [eva, "A"],
      answer: "Replayed",
      of: "rep_2",
      named: "c:eva"
    },
    {
      before: [
        [ana, "A"],
        [nobody, "A"]
      ],
      next: [nobody, "A"],
      answer: "Replayed",
      of: "rep_2",
      named: "Anonymous"
    },
    // then somebody's who signed, before nobody's
    {
      before: [
        [nobody, "A"],
        [ana, "A"]
      ],
      next: [unsure, "A"],
      answer: "Replayed",
      of: "rep_2",
      named: "c:ana"
    },
    {
      before: [
        [ana, "A"],
        [eva, "A"]
      ],
      next: [unsure, "A"],
      answer: "Replayed",
      of: "rep_1",
      named: "c:ana"
    },
    // an unverified row of the same content wins over a conflict with one's own other content
    {
      before: [
        [unsure, "A"],
        [ana, "B"]
      ],
      next: [ana, "A"],
      answer: "Replayed",
      of: "rep_1",
      named: "c:ana"
    },
    // and afterwards both rows are one's own
    {
      before: [
        [unsure, "A"],
        [ana, "B"],
        [ana, "A"]
      ],
      next: [ana, "B"],
      answer: "Replayed",
      of: "rep_2",
      named: "c:ana"
    },
    {
      before: [
        [unsure, "A"],
        [ana, "B"],
        [ana, "A"]
      ],
      next: [ana, "C"],
      answer: "Conflict"
    },
    // the name was taken: the next verified one with the same content is somebody else
    {
      before: [
        [unsure, "A"],
        [ana, "A"]
      ],
      next: [eva, "A"],
      answer: "Stored"
    },
    {
      before: [
        [unsure, "A"],
        [ana, "A"]
      ],
      next: [ana, "A"],
      answer: "Replayed",
      of: "rep_1",
      named: "c:ana"
    },
    {
      before: [
        [unsure, "A"],
        [ana, "A"],
        [eva, "A"]
      ],
      next: [unsure, "A"],
      answer: "Replayed",
      of: "rep_1",
      named: "c:ana"
    }
  ]

  const shown = (pairs: Case["before"]) =>
    pairs.map(([reporter, content]) => `${nameOf(reporter)} ${content}`).join(", ")

  for (const { before, next, answer, of, named } of cases)
    it.scoped(`under one key, ${shown(before)}, then ${shown([next])}: ${answer} ${of ?? ""}`, () =>
      Effect.gen(function* () {
        const { reports } = yield* freshStore
        const admit = ([reporter, contentDigest]: readonly [Reporter, string], index: number) =>
          reports.admit(
            sampleReport({ id: `rep_${index + 1}`, createdAt: index, reporter, contentDigest }),
            false
          )
        yield* Effect.forEach(before, admit)
        const admission = yield* admit(next, before.length)
        assert.strictEqual(admission._tag, answer)
        if (admission._tag === "Conflict" || admission._tag === "Full")
          return deepStrictEqual(yield* reports.find(`rep_${before.length + 1}`), Option.none())
        assert.strictEqual(admission.report.id, of ?? `rep_${before.length + 1}`)
        assert.strictEqual(nameOf(admission.report.reporter), named ?? nameOf(next[0]))
        deepStrictEqual(yield* reports.find(admission.report.id), Option.some(admission.report))
      })
    )

  it.scoped("keys of two planes, and two keys of one plane, are independent", () =>
    Effect.gen(function* () {
      const { reports } = yield* freshStore
      const changes = [{ id: "rep_1" }, { id: "rep_2", plane: "env-1" }, { id: "rep_3", keyDigest: "other" }]
      const admissions = yield* Effect.forEach(changes, (change) =>
        reports.admit(sampleReport(change), false)
      )
      deepStrictEqual(
        admissions.map(({ _tag }) => _tag),
        ["Stored", "Stored", "Stored"]
      )
    })
  )

  it.scoped("a stored report brings its delivery when asked for; a replay or a conflict brings none", () =>
    Effect.gen(function* () {
      const { deliveries, reports } = yield* freshStore
      yield* reports.admit(sampleReport({ id: "rep_1" }), true)
      yield* reports.admit(sampleReport({ id: "rep_2" }), true)
      yield* reports.admit(sampleReport({ id: "rep_3", contentDigest: "other" }), true)
      yield* reports.admit(sampleReport({ id: "rep_4", keyDigest: "other" }), false)
      const leased = yield* deliveries.lease({
        kinds: ["report"],
        count: 10,
        concurrency: 10,
        now: 1_000,
        leaseUntil: 2_000,
        owner: "worker"
      })
      deepStrictEqual(
        leased.map(({ subject }) => subject),
        ["rep_1"]
      )
    })
  )

  it.scoped("only a stored delivery wakes the worker", () =>
    Effect.gen(function* () {
      const { reports, wakeups } = yield* freshStore
      const woken = yield* Effect.fork(wakeups.deliveries)
      yield* reports.admit(sampleReport({ id: "rep_1" }), false)
      yield* reports.admit(sampleReport({ id: "rep_2" }), true)
      yield* Effect.yieldNow()
      assert.isTrue(Option.isNone(yield* Fiber.poll(woken)))
      yield* reports.admit(sampleReport({ id: "rep_3", keyDigest: "other" }), true)
      yield* Fiber.join(woken)
    })
  )

  it.scoped("a wake-up without a waiting worker is kept, once", () =>
    Effect.gen(function* () {
      const { reports, wakeups } = yield* freshStore
      for (const keyDigest of ["a", "b", "c"])
        yield* reports.admit(sampleReport({ id: `rep_${keyDigest}`, keyDigest }), true)
      yield* wakeups.deliveries
      const again = yield* Effect.fork(wakeups.deliveries)
      yield* Effect.yieldNow()
      assert.isTrue(Option.isNone(yield* Fiber.poll(again)))
      yield* Fiber.interrupt(again)
    })
  )

  it.scoped("identical reports at once, through two stores on one file, are stored once", () =>
    Effect.gen(function* () {
      const path = yield* freshPath
      const stores = [yield* openStore(path), yield* openStore(path)]
      const admissions = yield* Effect.forEach(
        Array.from({ length: 40 }, (_, index) => index),
        (index) =>
          Effect.forEach(stores, ({ reports }, which) =>
            reports.admit(sampleReport({ id: `rep_${index}_${which}`, keyDigest: `key ${index % 10}` }), true)
          ),
        { concurrency: "unbounded" }
      )
      const stored = admissions.flat().filter(({ _tag }) => _tag === "Stored")
      assert.strictEqual(stored.length, 10)
    })
  )
})
