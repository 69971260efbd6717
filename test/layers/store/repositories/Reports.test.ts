/** Which report a key stands for, and the parts of the room that one reporter, one network and newcomers may fill. */
import { assert } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as fc from "effect/FastCheck"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as TestContext from "effect/TestContext"
import { roomOf } from "../../../../src/services/usecases/ReportLimits.ts"
import {
  Anonymous,
  ReportAdmission,
  type StoreService,
  Unverified,
  Verified
} from "../../../../src/services/Store.ts"
import { sampleLease, sampleReport } from "../Samples.ts"
import { type Kind, onBoth } from "../Stores.ts"

type Admitted = ReturnType<typeof sampleReport>

const ana = Verified({ publicId: "c:ana" })
const eva = Verified({ publicId: "c:eva" })
const reporters = { ana, eva, anonymous: Anonymous(), unverified: Unverified() }

/** An admission, or the limit that refused it. */
const answerOf = (admission: ReportAdmission) =>
  admission._tag === "Full" ? admission.limit : admission._tag

const contentOf = (message: string) => ({ message, pr: null, attachments: [], context: null })
/** The counted size of a report with this message. */
const bytesOf = (message: string) => Buffer.byteLength(JSON.stringify(contentOf(message))) + 1_000

/** Reports under one key, each "reporter content"; then the result of the last one: an admission, and for a replay the report and its reporter afterwards. */
const underOneKey: Readonly<Record<string, ReadonlyArray<string>>> = {
  "the same content by the same reporter": [
    "ana A, ana A: Replayed rep_1 ana",
    "anonymous A, anonymous A: Replayed rep_1 anonymous",
    "unverified A, unverified A: Replayed rep_1 unverified"
  ],
  "the same content, and one of both is unverified": [
    "unverified A, ana A: Replayed rep_1 ana",
    "ana A, unverified A: Replayed rep_1 ana",
    "unverified A, anonymous A: Replayed rep_1 unverified",
    "anonymous A, unverified A: Replayed rep_1 anonymous"
  ],
  "the same content by another reporter": [
    "ana A, eva A: Stored",
    "ana A, anonymous A: Stored",
    "anonymous A, ana A: Stored"
  ],
  "other content by the same reporter": [
    "ana A, ana B: Conflict",
    "anonymous A, anonymous B: Conflict",
    "unverified A, unverified B: Conflict"
  ],
  "other content by another reporter": [
    "ana A, eva B: Stored",
    "ana A, anonymous B: Stored",
    "ana A, unverified B: Stored",
    "anonymous A, ana B: Stored",
    "anonymous A, unverified B: Stored",
    "unverified A, ana B: Stored",
    "unverified A, anonymous B: Stored"
  ],
  "several candidates: the reporter's own report first, then a verified one, then the oldest": [
    "ana A, eva A, eva A: Replayed rep_2 eva",
    "ana A, anonymous A, anonymous A: Replayed rep_2 anonymous",
    "anonymous A, ana A, unverified A: Replayed rep_2 ana",
    "ana A, eva A, unverified A: Replayed rep_1 ana"
  ],
  "an unverified report of the same content before a conflict with the reporter's own": [
    "unverified A, ana B, ana A: Replayed rep_1 ana",
    "unverified A, ana B, ana A, ana B: Replayed rep_2 ana",
    "unverified A, ana B, ana A, ana C: Conflict"
  ],
  "an unverified report that a verified reporter has repeated": [
    "unverified A, ana A, eva A: Stored",
    "unverified A, ana A, ana A: Replayed rep_1 ana",
    "unverified A, ana A, eva A, unverified A: Replayed rep_1 ana"
  ]
}

onBoth("Reports", ({ freshPath, freshStore, openStore, rawQuery, withStore }) => {
  it.scoped("a report is read as it was stored, also after a restart", function* () {
    const path = yield* freshPath
    const { contentDigest: _, keyDigest: __, ...content } = sampleReport()
    const expected = { ...content, issue: Option.none() }
    const admission = yield* withStore(path, ({ reports }) => reports.admit(sampleReport(), false))
    deepStrictEqual(admission, ReportAdmission.Stored({ report: expected }))
    const { reports } = yield* openStore(path)
    deepStrictEqual(yield* reports.find("rep_1"), Option.some(expected))
    deepStrictEqual(yield* reports.find("rep_2"), Option.none())
    const plain = sampleReport({ id: "rep_3", keyDigest: "3", content: contentOf("Only a message.") })
    yield* reports.admit(plain, false)
    deepStrictEqual(Option.getOrThrow(yield* reports.find("rep_3")).content, plain.content)
    const again = yield* reports.admit(sampleReport({ id: "rep_2" }), false)
    deepStrictEqual(again, ReportAdmission.Replayed({ report: expected, movedUp: false }))
  })

  it.scoped.each(Object.entries(underOneKey))("under one key, %s", function* ([, rows]) {
    const { reports } = yield* freshStore
    for (const row of rows) {
      const [given = "", expected = ""] = row.split(": ")
      const admissions = yield* Effect.forEach(given.split(", "), (pair, index) => {
        const [who = "", contentDigest = ""] = pair.split(" ")
        const reporter = reporters[who as keyof typeof reporters]
        const id = `${given} rep_${index + 1}`
        return reports.admit(
          sampleReport({ id, createdAt: index, keyDigest: given, reporter, contentDigest }),
          false
        )
      })
      const last = admissions.at(-1)
      const [answer, of, who] = expected.split(" ")
      assert.strictEqual(last?._tag, answer, given)
      if (last?._tag === "Replayed") {
        assert.strictEqual(last.report.id, `${given} ${of}`)
        deepStrictEqual(last.report.reporter, reporters[who as keyof typeof reporters])
        deepStrictEqual(yield* reports.find(last.report.id), Option.some(last.report))
      } else {
        const found = yield* reports.find(`${given} rep_${admissions.length}`)
        assert.strictEqual(Option.isSome(found), answer === "Stored", given)
      }
    }
  })

  it.scoped(
    "keys are independent of others and of other planes; only a stored report is delivered",
    function* () {
      const { deliveries, reports } = yield* freshStore
      const admissions = yield* Effect.forEach(
        [
          [{ id: "rep_1", createdAt: 2_000 }, true],
          [{ id: "rep_2", plane: "env-1" }, false],
          [{ id: "rep_3", keyDigest: "other" }, false],
          [{ id: "rep_4" }, true],
          [{ id: "rep_5", contentDigest: "other" }, true],
          [{ id: "rep_6", reporter: eva, createdAt: 1_000 }, false],
          // The oldest candidate is the one that was created first.
          [{ id: "rep_7", reporter: Unverified() }, true]
        ] as const,
        ([change, delivered]) => reports.admit(sampleReport(change), delivered)
      )
      const answers = admissions.map((one) => (one._tag === "Replayed" ? one.report.id : one._tag))
      deepStrictEqual(answers, ["Stored", "Stored", "Stored", "rep_1", "Conflict", "Stored", "rep_6"])
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

  it.scoped("beyond the bound nothing new is stored, and what is known is replayed", function* () {
    const { deliveries, reports } = yield* freshStore
    const admit = (id: string, all: number, message = "short", hasQuota = true) => {
      const report = sampleReport({ id, keyDigest: id, content: contentOf(message), contentDigest: message })
      const room = { unboundUpTo: all, reporter: all, network: all, all, withNewcomers: all }
      return Effect.map(reports.admit(report, true, room, hasQuota), answerOf)
    }
    const limit = bytesOf("short") * 2
    const answers = yield* Effect.forEach(["one", "two", "three"], (id) => admit(id, limit))
    deepStrictEqual(answers, ["Stored", "Stored", "room"])
    assert.strictEqual(yield* reports.storedBytes, limit)
    deepStrictEqual(yield* deliveries.counts, [{ kind: "report", state: "waiting", count: 2 }])
    deepStrictEqual([yield* admit("one", 0), yield* admit("one", 0, "other")], ["Replayed", "Conflict"])
    const message = "ärger 🎵"
    const room = limit + bytesOf(message)
    deepStrictEqual(yield* admit("three", room, message, false), "room", "without quota nothing is new")
    deepStrictEqual(yield* admit("three", room - 1, message), "room")
    deepStrictEqual(yield* admit("three", room, message), "Stored")
    assert.isTrue(yield* reports.knowsKey(sampleReport({ keyDigest: "three" })))
    assert.isFalse(yield* reports.knowsKey(sampleReport({ keyDigest: "three", plane: "env-1" })))
  })
})

const whole = 200_000
const room = roomOf(whole)

interface Sent extends Partial<Pick<Admitted, "reporter" | "plane">> {
  readonly id: string
  readonly key?: string
  readonly bytes: number
  readonly network?: string | undefined
  readonly createdAt?: number
}

/** A report that counts as so many bytes. */
const send = ({ reports }: StoreService, { bytes, id, key = id, ...of }: Sent) => {
  const content = contentOf("x".repeat(bytes - bytesOf("")))
  const report = { id, keyDigest: key, content, contentDigest: String(bytes), reporter: Anonymous(), ...of }
  return Effect.map(reports.admit(sampleReport(report), false, room), answerOf)
}

onBoth("The parts of the room", ({ freshPath, freshStore, openStore }) => {
  it.scoped("bind a network and a reporter from half of it on; a fifth stays for newcomers", function* () {
    const store = yield* freshStore
    const [a, b, c] = [{ network: "a" }, { network: "b" }, { network: "c" }]
    const [ofAna, ofEva] = [{ reporter: ana }, { reporter: eva }]
    const rows: ReadonlyArray<readonly [id: string, bytes: number, of: Partial<Sent>, answer: string]> = [
      ["a1", 50_000, a, "Stored"],
      ["a2", 50_000, a, "Stored"],
      // Half of the room is used: a fiftieth for each network, a tenth for each reporter, in each plane.
      ["a3", 1_100, a, "network"],
      ["b1", 4_001, b, "network"],
      ["b1", 4_000, b, "Stored"],
      ["b2", 1_100, { ...b, reporter: Unverified() }, "network"],
      ["v1", 9_000, ofAna, "Stored"],
      ["v2", 11_001, ofAna, "reporter"],
      ["v2", 10_000, ofAna, "Stored"],
      ["v5", 1_100, ofAna, "reporter"],
      ["v3", 20_000, { ...ofAna, plane: "testing" }, "Stored"],
      ["v4", 17_000, {}, "Stored"],
      // Four fifths are used.
      ["c1", 1_100, c, "room"],
      ["c2", 1_100, {}, "room"],
      ["c3", 1_100, ofAna, "room"],
      ["e1", 19_000, ofEva, "Stored"],
      ["e2", 1_100, ofEva, "room"],
      // What is stored is replayed whatever room is left.
      ["a1", 50_000, a, "Replayed"],
      ["e1", 19_000, ofEva, "Replayed"]
    ]
    for (const [id, bytes, of, answer] of rows)
      deepStrictEqual([id, yield* send(store, { id, bytes, ...of })], [id, answer])
  })

  // Under the real clock: one that meets the lock of the other waits.
  it.scopedLive("hold for concurrent reports of two processes", function* () {
    const path = yield* freshPath
    const stores = [yield* openStore(path), yield* openStore(path)]
    for (const store of stores.slice(0, 1)) yield* send(store, { id: "old", bytes: 100_000, reporter: eva })
    const answers = yield* Effect.forEach(
      Array.from({ length: 48 }, (_, index) => index),
      (index) => {
        const of = index % 4 < 2 ? { bytes: 1_900, network: "a" } : { bytes: 9_000, reporter: ana }
        const store = stores[index % 2]
        return store === undefined ? Effect.die("there are two") : send(store, { id: `${index}`, ...of })
      },
      { concurrency: "unbounded" }
    )
    const stored = answers.flatMap((answer, index) => (answer === "Stored" ? [index % 4 < 2] : []))
    deepStrictEqual(stored.toSorted(), [false, false, true, true])
  })

  it.scoped("a replay names its reporter only within the reporter's part, and answers always", function* () {
    const store = yield* freshStore
    yield* send(store, { id: "old", bytes: 100_000, reporter: eva })
    const reporterOf = (id: string) =>
      Effect.map(store.reports.find(id), (found) => Option.getOrThrow(found).reporter._tag)
    // During an outage of the identity service: one network, and then one reporter, at most their parts.
    for (let turn = 0; turn < 8; turn += 1) {
      const sent = { id: `u${turn}`, bytes: 4_000, network: "a" }
      const answer = yield* send(store, { ...sent, reporter: Unverified() })
      deepStrictEqual(answer, turn <= 5 ? "Stored" : "network")
      if (answer === "Stored") deepStrictEqual(yield* send(store, { ...sent, reporter: ana }), "Replayed")
    }
    deepStrictEqual([yield* reporterOf("u4"), yield* reporterOf("u5")], ["Verified", "Unverified"])
  })
})

const people: ReadonlyArray<Omit<Sent, "id" | "bytes">> = [
  { reporter: ana },
  { reporter: eva },
  { reporter: ana, plane: "testing" },
  { network: "a" },
  { reporter: Unverified(), network: "a" },
  { network: "b" },
  { reporter: Unverified(), network: "b" },
  {}
]
const who = fc.nat(people.length - 1)
const bytes = fc.integer({ min: 1_100, max: 30_000 })
const step = fc.oneof(
  { weight: 8, arbitrary: fc.record({ _tag: fc.constant("Send" as const), who, bytes }) },
  // Another sender repeats an earlier report.
  { weight: 3, arbitrary: fc.record({ _tag: fc.constant("Repeat" as const), of: fc.nat(), who }) },
  { weight: 1, arbitrary: fc.record({ _tag: fc.constant("Remove" as const), of: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ _tag: fc.constant("Clean" as const), before: fc.nat(20) }) }
)
type Step = typeof step extends fc.Arbitrary<infer A> ? A : never

interface Held {
  readonly holder: string | null
  /** A text from Postgres. */
  readonly bytes: number | string
}

const run = ({ freshPath, name, openStore }: Kind, steps: ReadonlyArray<Step>) =>
  Effect.gen(function* () {
    const store = yield* openStore(yield* freshPath)
    const size = name === "SQLite" ? "LENGTH(CAST(content AS BLOB))" : "OCTET_LENGTH(content)"
    const read = (query: string) =>
      Effect.map(store.sql.unsafe<Held>(query), (rows) =>
        rows.map((row) => ({ ...row, bytes: Number(row.bytes) }))
      )
    /** The sums of the rows themselves. */
    const sums = read(
      `SELECT CASE WHEN reporter LIKE 'verified:%' THEN plane || ' ' || reporter ELSE holder END AS holder,
        SUM(${size} + 1000) AS bytes
      FROM reports GROUP BY 1 ORDER BY 1`
    )
    const sent: Array<Sent> = []
    for (const [at, one] of steps.entries()) {
      const id = `rep_${at}`
      const earlier = (index: number) => sent[index % Math.max(1, sent.length)]
      const before = yield* sums
      if (one._tag === "Send") {
        const report = { ...people[one.who], id, bytes: one.bytes }
        sent.push(report)
        yield* send(store, { ...report, createdAt: 1_000 + at })
      } else if (one._tag === "Clean") yield* store.retention.reports(1_000 + one.before)
      else {
        const report = earlier(one.of)
        if (report !== undefined && one._tag === "Remove")
          yield* store.queries.removeReport(report.id, "a flood", at)
        else if (report !== undefined && one._tag === "Repeat") {
          const { plane = "production" } = report
          const by = { network: undefined, reporter: Anonymous(), ...people[one.who] }
          yield* send(store, { ...report, ...by, plane: by.plane ?? plane, id, key: report.id })
        }
      }
      const after = yield* sums
      const held = after.filter(({ holder }) => holder !== null)
      deepStrictEqual(
        yield* read("SELECT holder, bytes FROM report_sums WHERE holder <> '' ORDER BY holder"),
        held
      )
      const total = yield* store.reports.storedBytes
      assert.strictEqual(
        total,
        after.reduce((sum, row) => sum + row.bytes, 0)
      )
      assert.isAtMost(total, room.withNewcomers)
      for (const { bytes, holder } of held) {
        const isNetwork = holder === "a" || holder === "b"
        const was = before.find((other) => other.holder === holder)?.bytes ?? 0
        if (bytes > was && total > room.unboundUpTo && (isNetwork || was > 0))
          assert.isAtMost(bytes, isNetwork ? room.network : room.reporter)
        if (bytes > was && was > 0 && one._tag === "Send") assert.isAtMost(total, room.all)
      }
      // A newcomer always finds room while there is some.
      const newcomer = {
        ...{ id: `new_${at}`, bytes: 1_100, createdAt: 1 },
        reporter: Verified({ publicId: `c:new${at}` })
      }
      deepStrictEqual(yield* send(store, newcomer), total + newcomer.bytes > whole ? "room" : "Stored")
      yield* store.retention.reports(2)
    }
  }).pipe(Effect.scoped, Effect.provide(TestContext.TestContext))

onBoth("The law of the parts", (kind) => {
  it("holds after every step of any sequence of reports, repetitions and removals", () =>
    fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 40 }), (steps) =>
        Effect.runPromise(run(kind, steps))
      ),
      { numRuns: kind.name === "SQLite" ? 12 : 3 }
    ))
})
