/** Which report a key stands for, and the parts of the room that one reporter, one network and newcomers may fill. */
import { assert } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import { Effect, Option } from "effect"
import { roomOf } from "../../../../src/services/usecases/Reports.ts"
import {
  Anonymous,
  ReportAdmission,
  type StoreService,
  Unverified,
  Verified
} from "../../../../src/services/Store.ts"
import { sampleReport } from "../Samples.ts"
import { onBoth } from "../Stores.ts"

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

/** Reports under one key, each "reporter content"; then the result of the last one: an admission, and for a replay the report. */
const underOneKey = [
  "ana A, ana A: Replayed rep_1",
  "anonymous A, anonymous A: Replayed rep_1",
  "unverified A, unverified A: Replayed rep_1",
  // One of both is unverified.
  "unverified A, ana A: Replayed rep_1",
  "ana A, unverified A: Replayed rep_1",
  "unverified A, anonymous A: Replayed rep_1",
  "anonymous A, unverified A: Replayed rep_1",
  // Another reporter, whatever the content.
  "ana A, eva A: Stored",
  "ana A, anonymous A: Stored",
  "anonymous A, ana A: Stored",
  "ana A, eva B: Stored",
  "ana A, unverified B: Stored",
  "unverified A, ana B: Stored",
  "unverified A, anonymous B: Stored",
  // Other content by the same reporter.
  "ana A, ana B: Conflict",
  "anonymous A, anonymous B: Conflict",
  "unverified A, unverified B: Conflict",
  // The reporter's own report comes first, then the oldest.
  "ana A, eva A, eva A: Replayed rep_2",
  "anonymous A, ana A, unverified A: Replayed rep_1",
  "ana A, eva A, unverified A: Replayed rep_1",
  // An unverified report of the same content comes before a conflict with the reporter's own.
  "unverified A, ana B, ana A: Replayed rep_1",
  "unverified A, ana B, ana A, ana B: Replayed rep_2",
  "unverified A, ana B, ana A, ana C: Conflict"
]

onBoth("Reports", ({ freshPath, freshStore, openStore, withStore }) => {
  it.scoped("are read as they were stored, also after a restart", function* () {
    const path = yield* freshPath
    const { contentDigest: _, keyDigest: __, ...given } = sampleReport()
    const bytes = Buffer.byteLength(JSON.stringify(given.content)) + 1_000
    const expected = { ...given, bytes, issue: Option.none(), removal: Option.none() }
    const admission = yield* withStore(path, ({ reports }) => reports.admit(sampleReport(), false))
    deepStrictEqual(admission, ReportAdmission.Stored())
    const { reports } = yield* openStore(path)
    deepStrictEqual(yield* reports.find("rep_1"), Option.some(expected))
    deepStrictEqual(yield* reports.find("rep_2"), Option.none())
    const elsewhere = yield* reports.admit(sampleReport({ id: "rep_3", plane: "env-1" }), false)
    assert.strictEqual(elsewhere._tag, "Stored")
  })

  it.scoped("under one key are repeated, stored beside each other, or in conflict", function* () {
    const { reports } = yield* freshStore
    for (const row of underOneKey) {
      const [given = "", expected = ""] = row.split(": ")
      const admissions = yield* Effect.forEach(given.split(", "), (pair, index) => {
        const [who = "", contentDigest = ""] = pair.split(" ")
        const reporter = reporters[who as keyof typeof reporters]
        const id = `${given} rep_${index + 1}`
        const report = sampleReport({ id, createdAt: index, keyDigest: given, reporter, contentDigest })
        return reports.admit(report, false)
      })
      const last = admissions.at(-1)
      const [answer, of] = expected.split(" ")
      assert.strictEqual(last?._tag, answer, given)
      if (last?._tag === "Replayed") assert.strictEqual(last.report.id, `${given} ${of}`)
      else {
        const found = yield* reports.find(`${given} rep_${admissions.length}`)
        assert.strictEqual(Option.isSome(found), answer === "Stored", given)
      }
    }
  })

  it.scoped("are new where there is room for their bytes and a quota is left", function* () {
    const { reports } = yield* freshStore
    const content = contentOf("ärger 🎵")
    const admit = (all: number, change: Partial<Admitted> = {}, hasQuota = true) => {
      const room = { unboundUpTo: all, reporter: all, network: all, all, withNewcomers: all }
      return Effect.map(reports.admit(sampleReport({ content, ...change }), true, room, hasQuota), answerOf)
    }
    const size = bytesOf(content.message)
    for (const [answer, expected] of [
      [admit(size, {}, false), "room"],
      [admit(size - 1), "room"],
      [admit(size), "Stored"],
      [admit(0), "Replayed"],
      [admit(0, { contentDigest: "other" }), "Conflict"]
    ] as const)
      assert.strictEqual(yield* answer, expected)
    assert.strictEqual(yield* reports.storedBytes, size)
    assert.isTrue(yield* reports.knowsKey(sampleReport()))
    assert.isFalse(yield* reports.knowsKey(sampleReport({ plane: "env-1" })))
  })
})

interface Sent extends Partial<Pick<Admitted, "reporter" | "plane">> {
  readonly id: string
  readonly bytes: number
  readonly network?: string | undefined
  readonly createdAt?: number
}

/** A report that counts as so many bytes, in a room of 200,000. */
const send = ({ reports }: StoreService, { bytes, id, ...of }: Sent) => {
  const content = contentOf("x".repeat(bytes - bytesOf("")))
  const report = { id, keyDigest: id, content, contentDigest: String(bytes), reporter: Anonymous(), ...of }
  return Effect.map(reports.admit(sampleReport(report), false, roomOf(200_000)), answerOf)
}

type Row = readonly [id: string, bytes: number, of: Partial<Sent>, answer: string]
const sendAll = (store: StoreService, rows: ReadonlyArray<Row>) =>
  Effect.forEach(rows, ([id, bytes, of, answer]) =>
    Effect.map(send(store, { id, bytes, ...of }), (found) => deepStrictEqual([id, found], [id, answer]))
  )

onBoth("The parts of the room", ({ freshPath, freshStore, openStore }) => {
  const [a, b, c] = [{ network: "a" }, { network: "b" }, { network: "c" }]
  const [ofAna, ofEva] = [{ reporter: ana }, { reporter: eva }]

  it.scoped("bind a network and a reporter from half of it on; a fifth stays for newcomers", function* () {
    yield* sendAll(yield* freshStore, [
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
      // All testing planes are one holder.
      ["t1", 1_100, { ...ofEva, plane: "another" }, "reporter"],
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
    ])
  })

  it.scoped("hold what is stored, until retention or an operator removes it", function* () {
    const store = yield* openStore(yield* freshPath)
    const { queries, reports, retention } = store
    yield* sendAll(store, [
      ["old", 100_000, ofEva, "Stored"],
      ["a1", 4_000, { ...a, createdAt: 500 }, "Stored"],
      ["a2", 4_000, a, "network"],
      ["v1", 20_000, ofAna, "Stored"],
      ["v2", 1_100, ofAna, "reporter"]
    ])
    assert.strictEqual(yield* retention.reports(501), 1)
    yield* sendAll(store, [["a2", 4_000, { ...a, reporter: Unverified() }, "Stored"]])
    assert.strictEqual(yield* reports.storedBytes, 124_000)
    yield* queries.removeReport("v1", "a flood", 1)
    assert.strictEqual(yield* reports.storedBytes, 104_000)
    yield* sendAll(store, [
      ["a3", 1_100, a, "network"],
      ["v2", 20_000, ofAna, "Stored"]
    ])
  })
})
