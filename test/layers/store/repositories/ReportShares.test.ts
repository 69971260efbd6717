/** The parts of the room that one reporter, one network and newcomers may fill. */
import { assert } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as fc from "effect/FastCheck"
import * as TestContext from "effect/TestContext"
import { roomOf } from "../../../../src/services/ReportCapacity.ts"
import {
  Anonymous,
  type Reporter,
  type StoreService,
  Unverified,
  Verified
} from "../../../../src/services/Store.ts"
import { type Kind, onBoth, openQueries, sampleReport } from "../Stores.ts"

const whole = 200_000
const room = roomOf(whole)

/** A content that counts as so many bytes. */
const contentOf = (bytes: number) => {
  const empty = { message: "", pr: null, attachments: [], context: null }
  return { ...empty, message: "x".repeat(bytes - 1_000 - JSON.stringify(empty).length) }
}

interface Sent {
  readonly id: string
  readonly key?: string
  readonly bytes: number
  readonly reporter?: Reporter
  readonly network?: string | undefined
  readonly plane?: string
}

/** `Stored`, `Replayed`, or the limit that refused it. */
const send = (
  { reports }: StoreService,
  { bytes, id, key = id, network, plane = "production", reporter = Anonymous() }: Sent
) =>
  Effect.map(
    reports.admit(
      sampleReport({
        id,
        plane,
        keyDigest: key,
        content: contentOf(bytes),
        contentDigest: String(bytes),
        reporter,
        network
      }),
      false,
      room
    ),
    (admission) => (admission._tag === "Full" ? admission.limit : admission._tag)
  )

const ana = Verified({ publicId: "c:ana" })
const eva = Verified({ publicId: "c:eva" })

onBoth("The parts of the room", (kind) => {
  const { freshPath, freshStore, openStore, rawQuery } = kind

  it.scoped(
    "bind a network and a reporter from half of the room on, and a fifth stays for newcomers",
    function* () {
      const store = yield* freshStore
      const a = { network: "a" }
      const b = { network: "b" }
      const ofAna = { reporter: ana }
      const ofEva = { reporter: eva }
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
        ["c1", 1_100, { network: "c" }, "room"],
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
    }
  )

  it.scoped("hold for concurrent reports of two processes", function* () {
    const path = yield* freshPath
    const stores = [yield* openStore(path), yield* openStore(path)]
    for (const { reports } of stores.slice(0, 1))
      yield* reports.admit(sampleReport({ id: "old", reporter: eva, content: contentOf(100_000) }), false)
    const answers = yield* Effect.forEach(
      Array.from({ length: 24 }, (_, index) => index),
      (index) =>
        Effect.forEach(stores, (store, which) =>
          send(
            store,
            index % 2 === 0
              ? { id: `${index} ${which}`, bytes: 1_900, network: "a" }
              : { id: `${index} ${which}`, bytes: 9_000, reporter: ana }
          )
        ),
      { concurrency: "unbounded" }
    )
    const stored = answers.map((pair) => pair.filter((answer) => answer === "Stored").length)
    const sum = (some: ReadonlyArray<number>) => some.reduce((one, other) => one + other, 0)
    assert.strictEqual(sum(stored.filter((_, index) => index % 2 === 0)), 2)
    assert.strictEqual(sum(stored.filter((_, index) => index % 2 === 1)), 2)
  })

  it.scoped(
    "a replay names its reporter only within the reporter's part, and answers in any case",
    function* () {
      const store = yield* freshStore
      yield* send(store, { id: "old", bytes: 100_000, reporter: eva })
      const reporterOf = (id: string) =>
        Effect.map(store.reports.find(id), (found) =>
          found._tag === "Some" ? found.value.reporter._tag : "none"
        )
      // During an outage of the identity service: one network, and then one reporter, at most their parts.
      for (let turn = 0; turn < 8; turn += 1) {
        const sent = { id: `u${turn}`, bytes: 4_000, network: "a" }
        const answer = yield* send(store, { ...sent, reporter: Unverified() })
        deepStrictEqual(answer, turn <= 5 ? "Stored" : "network")
        if (answer === "Stored") deepStrictEqual(yield* send(store, { ...sent, reporter: ana }), "Replayed")
      }
      deepStrictEqual(yield* reporterOf("u4"), "Verified")
      deepStrictEqual(yield* reporterOf("u5"), "Unverified")
      // Room came back: the next replay names it.
      yield* store.retention.reports(0)
      for (const turn of [0, 1, 2, 3, 4])
        deepStrictEqual(yield* send(store, { id: `u${turn}`, bytes: 4_000, reporter: ana }), "Replayed")
    }
  )

  it.scoped(
    "count neither removed reports nor those of retention, and keep no digest without a report",
    function* () {
      const path = yield* freshPath
      const store = yield* openStore(path)
      const queries = yield* openQueries(path)
      yield* send(store, { id: "v", bytes: 40_000, reporter: ana })
      yield* send(store, { id: "a", bytes: 60_000, network: "a" })
      deepStrictEqual(yield* send(store, { id: "a2", bytes: 1_100, network: "a" }), "network")
      for (const id of ["v", "a"]) yield* queries.removeReport(id, "a flood", 2_000)
      const held = rawQuery(path, "SELECT * FROM room_holders")
      deepStrictEqual(yield* held, [])
      deepStrictEqual(yield* send(store, { id: "a2", bytes: 60_000, network: "a" }), "Stored")
      assert.strictEqual(yield* store.retention.reports(9_000), 3)
      deepStrictEqual(yield* held, [])
      assert.strictEqual(yield* store.reports.storedBytes, 0)
    }
  )
})

const people: ReadonlyArray<Omit<Sent, "id" | "bytes">> = [
  { reporter: ana },
  { reporter: eva },
  { reporter: ana, plane: "testing" },
  { reporter: Anonymous(), network: "a" },
  { reporter: Unverified(), network: "a" },
  { reporter: Anonymous(), network: "b" },
  { reporter: Unverified(), network: "b" },
  { reporter: Anonymous(), network: undefined }
]
const step = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      _tag: fc.constant("Send" as const),
      who: fc.nat(people.length - 1),
      bytes: fc.integer({ min: 1_100, max: 30_000 })
    })
  },
  // Another sender repeats an earlier report.
  { weight: 3, arbitrary: fc.record({ _tag: fc.constant("Repeat" as const), of: fc.nat(), who: fc.nat(7) }) },
  { weight: 1, arbitrary: fc.record({ _tag: fc.constant("Remove" as const), of: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ _tag: fc.constant("Clean" as const), before: fc.nat(60) }) }
)
type Step = typeof step extends fc.Arbitrary<infer A> ? A : never

/** The sums of the rows themselves. */
const sumsOf = (kind: Kind, path: string) =>
  Effect.map(
    kind.rawQuery(
      path,
      `SELECT CASE WHEN reporter LIKE 'verified:%' THEN plane ELSE '' END AS plane,
        CASE WHEN reporter LIKE 'verified:%' THEN reporter ELSE network END AS holder,
        SUM(${kind.name === "SQLite" ? "LENGTH(CAST(content AS BLOB))" : "OCTET_LENGTH(content)"} + 1000) AS bytes
      FROM reports GROUP BY 1, 2 ORDER BY 1, 2`
    ),
    (rows) => rows.map(({ bytes, holder, plane }) => ({ plane, holder, bytes: Number(bytes) }))
  )

const run = (kind: Kind, steps: ReadonlyArray<Step>) =>
  Effect.gen(function* () {
    const path = yield* kind.freshPath
    const store = yield* kind.openStore(path)
    const queries = yield* openQueries(path)
    const sent: Array<Sent> = []
    let at = 0
    for (const one of steps) {
      at += 1
      const earlier = (index: number) => sent[index % Math.max(1, sent.length)]
      const before = yield* sumsOf(kind, path)
      if (one._tag === "Send") {
        const report = { ...people[one.who], id: `rep_${at}`, bytes: one.bytes }
        sent.push(report)
        yield* send(store, report)
      } else if (one._tag === "Repeat") {
        const report = earlier(one.of)
        if (report !== undefined)
          yield* send(store, {
            ...report,
            ...people[one.who],
            plane: report.plane ?? "production",
            id: `rep_${at}`,
            key: report.id
          })
      } else if (one._tag === "Remove") {
        const report = earlier(one.of)
        if (report !== undefined) yield* queries.removeReport(report.id, "a flood", at)
      } else yield* kind.rawQuery(path, `DELETE FROM reports WHERE id = 'rep_${one.before}'`)

      const after = yield* sumsOf(kind, path)
      const held = after.filter(({ holder }) => holder !== null)
      assert.deepStrictEqual<unknown>(
        yield* kind.rawQuery(path, "SELECT plane, holder, bytes FROM room_holders ORDER BY plane, holder"),
        held
      )
      const total = yield* store.reports.storedBytes
      assert.strictEqual(
        total,
        after.reduce((sum, { bytes }) => sum + bytes, 0)
      )
      assert.isAtMost(total, room.withNewcomers)
      for (const { bytes, holder, plane } of held) {
        const was = before.find((row) => row.plane === plane && row.holder === holder)?.bytes ?? 0
        if (bytes > was && total > room.unboundUpTo && (plane === "" || was > 0))
          assert.isAtMost(bytes, plane === "" ? room.network : room.reporter)
        if (bytes > was && was > 0 && one._tag === "Send") assert.isAtMost(total, room.all)
      }
      // A newcomer always finds room while there is some.
      const newcomer = { id: `new_${at}`, bytes: 1_100, reporter: Verified({ publicId: `c:new${at}` }) }
      deepStrictEqual(yield* send(store, newcomer), total + newcomer.bytes > whole ? "room" : "Stored")
      yield* kind.rawQuery(path, `DELETE FROM reports WHERE id = 'new_${at}'`)
    }
  }).pipe(Effect.scoped, Effect.provide(TestContext.TestContext))

onBoth("The law of the parts", (kind) => {
  it("holds after every step of any sequence of reports, repetitions and removals", () =>
    fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 40 }), (steps) =>
        Effect.runPromise(run(kind, steps))
      ),
      { numRuns: kind.name === "SQLite" ? 25 : 6 }
    ))
})
