/** The bound of stored reports, and the priority of their deliveries. */
import { assert } from "vitest"
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as fc from "effect/FastCheck"
import * as Option from "effect/Option"
import * as TestContext from "effect/TestContext"
import {
  Anonymous,
  DeliveryUpdate,
  type Reporter,
  type ReportRoom,
  type StoreService,
  Unverified,
  Verified
} from "../../../../src/services/Store.ts"
import { type Kind, onBoth, sampleLease, sampleReport } from "../Stores.ts"

const ana = Verified({ publicId: "c:ana" })

/** The counted size of a report with a message of so many bytes. */
const contentOf = (message: string) => ({ message, pr: null, attachments: [], context: null })
const bytesOf = (message: string) => Buffer.byteLength(JSON.stringify(contentOf(message))) + 1_000

/** A room without parts. */
const roomOf = (bytes: number): ReportRoom => ({
  unboundUpTo: bytes,
  reporter: bytes,
  network: bytes,
  all: bytes,
  withNewcomers: bytes
})

const admit = (
  { reports }: StoreService,
  id: string,
  {
    hasQuota,
    key = id,
    limit,
    message = "short",
    network,
    reporter = ana,
    room = limit === undefined ? undefined : roomOf(limit)
  }: {
    hasQuota?: boolean
    key?: string
    limit?: number
    message?: string
    network?: string
    reporter?: Reporter
    room?: ReportRoom | undefined
  } = {}
) =>
  Effect.map(
    reports.admit(
      sampleReport({
        id,
        keyDigest: key,
        content: contentOf(message),
        contentDigest: message,
        reporter,
        network
      }),
      true,
      room,
      hasQuota
    ),
    (admission) =>
      admission._tag === "Replayed" && admission.movedUp
        ? "MovedUp"
        : admission._tag === "Full" && room !== undefined
          ? admission.limit
          : admission._tag
  )

const leased = ({ deliveries }: StoreService, now: number, count = 10) =>
  deliveries.lease(sampleLease({ count, now, leaseUntil: now + 1_000 }))

onBoth("The bound of stored reports", ({ freshPath, freshStore, openStore }) => {
  it.scoped("refuses new reports without storing anything, and replays known ones", function* () {
    const store = yield* freshStore
    const limit = bytesOf("short") * 2
    const answers = yield* Effect.forEach(["one", "two", "three"], (id) => admit(store, id, { limit }))
    deepStrictEqual(answers, ["Stored", "Stored", "room"])
    assert.strictEqual(yield* store.reports.storedBytes, limit)
    deepStrictEqual(yield* store.deliveries.counts, [{ kind: "report", state: "waiting", count: 2 }])
    deepStrictEqual(yield* admit(store, "one", { limit: 0 }), "Replayed")
    deepStrictEqual(yield* admit(store, "one", { limit: 0, message: "other" }), "Conflict")
    const message = "ärger 🎵"
    const room = limit + bytesOf(message)
    deepStrictEqual(yield* admit(store, "three", { limit: room - 1, message }), "room")
    deepStrictEqual(yield* admit(store, "three", { limit: room, message }), "Stored")
  })

  it.scoped("holds for concurrent reports of two processes", function* () {
    const path = yield* freshPath
    const stores = [yield* openStore(path), yield* openStore(path)]
    const limit = bytesOf("short") * 7
    const answers = yield* Effect.forEach(
      Array.from({ length: 20 }, (_, index) => index),
      (index) => Effect.forEach(stores, (store, which) => admit(store, `${index} ${which}`, { limit })),
      { concurrency: "unbounded" }
    )
    assert.strictEqual(answers.flat().filter((answer) => answer === "Stored").length, 7)
    for (const { reports } of stores) assert.strictEqual(yield* reports.storedBytes, limit)
  })
})

onBoth("The order of leases", ({ freshStore }) => {
  const subjectsOf = (store: StoreService, now: number, count?: number) =>
    Effect.map(leased(store, now, count), (some) => some.map(({ subject }) => subject))

  it.scoped("verified reporters come first, then the earliest due time", function* () {
    const store = yield* freshStore
    for (const [id, reporter] of [
      ["a1", Anonymous()],
      ["u1", Unverified()],
      ["v1", ana],
      ["a2", Anonymous()],
      ["v2", Verified({ publicId: "c:eva" })]
    ] as const)
      yield* admit(store, id, { reporter })
    deepStrictEqual(yield* subjectsOf(store, 2_000, 1), ["v1"])
    deepStrictEqual(yield* subjectsOf(store, 2_000), ["v2", "a1", "a2", "u1"])
  })

  it.scoped("unknown outcomes come before everything else", function* () {
    const store = yield* freshStore
    yield* admit(store, "old", { reporter: Anonymous() })
    const [first] = yield* leased(store, 2_000)
    assert.isDefined(first)
    yield* store.deliveries.update(
      first.id,
      first.fence,
      DeliveryUpdate.Unknown({ availableAt: 7_000, failure: "timeout", searches: 0 })
    )
    yield* admit(store, "new", { reporter: ana })
    deepStrictEqual(yield* subjectsOf(store, 8_000, 1), ["old"])
    deepStrictEqual(yield* subjectsOf(store, 8_000), ["new"])
  })

  it.scoped("a report that gets a verified reporter gets a verified reporter's priority", function* () {
    const store = yield* freshStore
    yield* admit(store, "a", { reporter: Anonymous() })
    yield* admit(store, "u", { reporter: Unverified() })
    deepStrictEqual(yield* admit(store, "u", { reporter: ana }), "MovedUp")
    deepStrictEqual(yield* admit(store, "u", { reporter: ana }), "Replayed")
    deepStrictEqual(yield* subjectsOf(store, 2_000), ["u", "a"])
  })

  it.scoped(
    "without quota a replay names the reporter, and only a later one with quota moves it up",
    function* () {
      const store = yield* freshStore
      yield* admit(store, "a", { reporter: Anonymous() })
      yield* admit(store, "u", { reporter: Unverified() })
      deepStrictEqual(yield* admit(store, "u", { hasQuota: false }), "Replayed")
      deepStrictEqual(Option.getOrThrow(yield* store.reports.find("u")).reporter, ana)
      deepStrictEqual(yield* admit(store, "v", { hasQuota: false }), "Full")
      deepStrictEqual(yield* subjectsOf(store, 2_000, 1), ["a"])
      deepStrictEqual(yield* admit(store, "b", { reporter: Anonymous() }), "Stored")
      deepStrictEqual(yield* admit(store, "u"), "MovedUp")
      deepStrictEqual(yield* subjectsOf(store, 2_000), ["u", "b"])
    }
  )

  it.scoped("a report whose delivery is over does not move up", function* () {
    const store = yield* freshStore
    yield* admit(store, "u", { reporter: Unverified() })
    yield* store.deliveries.discard("report:u", 2_000, "no use")
    deepStrictEqual(yield* admit(store, "u"), "Replayed")
    yield* admit(store, "anonymous", { reporter: Anonymous() })
    deepStrictEqual(yield* admit(store, "anonymous", { reporter: Unverified() }), "Replayed")
  })

  it.scoped("a late sweep comes before reports of unverified reporters", function* () {
    const store = yield* freshStore
    yield* admit(store, "v")
    for (const { fence, id } of yield* leased(store, 2_000))
      yield* store.deliveries.update(
        id,
        fence,
        DeliveryUpdate.Delivered({ at: 2_500, issue: Option.none(), sweepAt: Option.some(3_000) })
      )
    yield* admit(store, "a", { reporter: Anonymous() })
    deepStrictEqual(yield* subjectsOf(store, 3_000), ["v", "a"])
  })

  it.scoped(
    "without ordinary ones, only priority and unknown outcomes are leased and fall due",
    function* () {
      const store = yield* freshStore
      const { deliveries } = store
      const kinds = ["report", "sweep"] as const
      const prioritised = (now: number) =>
        Effect.map(deliveries.lease(sampleLease({ ordinary: false, now, leaseUntil: now + 1_000 })), (some) =>
          some.map(({ kind, subject }) => `${kind}:${subject}`)
        )
      const dueAt = (ordinary: boolean) =>
        Effect.map(deliveries.nextDueAt(kinds, 10, ordinary), Option.getOrUndefined)

      yield* admit(store, "sent", { reporter: Anonymous() })
      yield* admit(store, "lost", { reporter: Anonymous() })
      for (const { fence, id, subject } of yield* leased(store, 1_000))
        yield* deliveries.update(
          id,
          fence,
          subject === "sent"
            ? DeliveryUpdate.Delivered({ at: 1_100, issue: Option.none(), sweepAt: Option.some(1_200) })
            : DeliveryUpdate.Unknown({ availableAt: 1_300, failure: "timeout", searches: 0 })
        )
      for (const id of ["a", "b", "c"]) yield* admit(store, id, { reporter: Anonymous() })
      yield* admit(store, "u", { reporter: Unverified() })
      yield* deliveries.retry("report:c", 1_400)
      deepStrictEqual([yield* dueAt(true), yield* dueAt(false)], [1_000, 1_200])
      deepStrictEqual(yield* prioritised(1_250), ["sweep:sent"])
      deepStrictEqual(yield* prioritised(1_450), ["report:lost", "report:c"])
      // The end of the first lease.
      deepStrictEqual([yield* dueAt(true), yield* dueAt(false)], [1_000, 2_250])
      yield* admit(store, "v")
      deepStrictEqual([yield* dueAt(true), yield* dueAt(false)], [1_000, 1_000])
      deepStrictEqual(yield* prioritised(1_500), ["report:v"])
      deepStrictEqual(yield* subjectsOf(store, 1_550), ["a", "b", "u"])
    }
  )

  it.scoped("a retry by an operator comes before reports of unverified reporters", function* () {
    const store = yield* freshStore
    for (const id of ["a", "b", "c"]) yield* admit(store, id, { reporter: Anonymous() })
    yield* store.deliveries.retry("report:c", 1_500)
    deepStrictEqual(yield* subjectsOf(store, 2_000), ["c", "a", "b"])
  })
})

const messages = ["short", "ä longer one"]
const reporters: ReadonlyArray<Reporter> = [Anonymous(), Unverified(), ana]
const keys = ["a", "b", "c"]

/** Each attempt has a new report id. */
const idOf = (key: string, reporter: Reporter, message: string) =>
  `${key} ${reporter._tag} ${messages.indexOf(message)}`
const ids = keys.flatMap((key) =>
  reporters.flatMap((reporter) => messages.map((message) => idOf(key, reporter, message)))
)
const operation = fc.oneof(
  fc.record({
    _tag: fc.constant("Admit" as const),
    key: fc.constantFrom(...keys),
    message: fc.constantFrom(...messages),
    reporter: fc.constantFrom(...reporters),
    limit: fc.constantFrom(0, 3_000, 1_000_000)
  }),
  fc.record({
    _tag: fc.constant("Work" as const),
    count: fc.integer({ min: 1, max: 3 }),
    update: fc.constantFrom("none", "Sending", "Delivered", "Waiting", "Unknown", "Failed")
  }),
  fc.record({ _tag: fc.constant("Retry" as const), id: fc.constantFrom(...ids) }),
  fc.record({ _tag: fc.constant("Discard" as const), id: fc.constantFrom(...ids) }),
  fc.record({ _tag: fc.constant("Clean" as const), what: fc.constantFrom("reports", "deliveries") })
)
type Operation = typeof operation extends fc.Arbitrary<infer A> ? A : never

const updateOf = (name: string, at: number): DeliveryUpdate | undefined => {
  const failure = "rate limited"
  const issue = { number: 1, url: "https://github.com/harbor/music/issues/1" }
  const updates: Readonly<Record<string, DeliveryUpdate>> = {
    Sending: DeliveryUpdate.Sending({ at }),
    Delivered: DeliveryUpdate.Delivered({ at, issue: Option.some(issue), sweepAt: Option.some(at) }),
    Waiting: DeliveryUpdate.Waiting({ availableAt: at, failure }),
    Unknown: DeliveryUpdate.Unknown({ availableAt: at, failure, searches: 0 }),
    Failed: DeliveryUpdate.Failed({ at, failure })
  }
  return updates[name]
}

const apply = (store: StoreService, step: Operation, now: number) =>
  Effect.gen(function* () {
    switch (step._tag) {
      case "Admit":
        return yield* admit(store, idOf(step.key, step.reporter, step.message), step)
      case "Work": {
        const update = updateOf(step.update, now)
        for (const { fence, id } of yield* leased(store, now, step.count))
          if (update !== undefined) yield* store.deliveries.update(id, fence, update)
        return
      }
      case "Retry":
        return yield* store.deliveries.retry(`report:${step.id}`, now)
      case "Discard":
        return yield* store.deliveries.discard(`report:${step.id}`, now, "done by hand")
      case "Clean":
        return yield* store.retention[step.what === "reports" ? "reports" : "deliveries"](now)
    }
  })

const run = (kind: Kind, steps: ReadonlyArray<Operation>) =>
  Effect.gen(function* () {
    const path = yield* kind.freshPath
    const store = yield* kind.openStore(path)
    let now = 2_000
    for (const step of steps) {
      now += 400
      yield* apply(store, step, now)
      const [total] = yield* kind.rawQuery(
        path,
        `SELECT COALESCE(SUM(${kind.name === "SQLite" ? "LENGTH(CAST(content AS BLOB))" : "OCTET_LENGTH(content)"} + 1000), 0) AS bytes
        FROM reports`
      )
      assert.strictEqual(yield* store.reports.storedBytes, total?.bytes)
      assert.deepStrictEqual<unknown>(
        yield* store.deliveries.counts,
        yield* kind.rawQuery(
          path,
          `SELECT kind, state, COUNT(*) AS count FROM deliveries WHERE state <> 'failed' OR discarded_at IS NULL
          GROUP BY kind, state ORDER BY kind, state`
        )
      )
    }
  }).pipe(Effect.scoped, Effect.provide(TestContext.TestContext))

onBoth("The sums of reports and deliveries", (kind) => {
  it("agree with the rows after every step of any sequence of operations", () =>
    fc.assert(
      fc.asyncProperty(fc.array(operation, { minLength: 1, maxLength: 25 }), (steps) =>
        Effect.runPromise(run(kind, steps))
      ),
      { numRuns: kind.name === "SQLite" ? 25 : 8 }
    ))
})
