/** Two processes on one database do to deliveries and destinations what the model does in memory, whatever the order. */
import { it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as fc from "effect/FastCheck"
import * as Option from "effect/Option"
import * as TestContext from "effect/TestContext"
import type { OperatorQueriesService } from "../../../../src/services/OperatorQueries.ts"
import {
  Anonymous,
  DeliveryUpdate,
  type Reporter,
  type StoreService,
  Unverified,
  Verified
} from "../../../../src/services/Store.ts"
import { type Kind, onBoth, openQueries, sampleReport } from "../Stores.ts"
import { byName, day, DeliveryModel, hour } from "./DeliveryModel.ts"

const ana = Verified({ publicId: "c:ana" })
const which = fc.nat(5)
/** Most often the newest lease, sometimes one whose fence is older. */
const lease = fc.constantFrom(0, 0, 0, 1, 1, 2, 5)
const reporter = fc.constantFrom<Reporter>(Anonymous(), Unverified(), ana)
const kinds = fc.constantFrom(["report", "sweep"] as const, ["report", "sweep"] as const, ["sweep"] as const)
const name = fc.constantFrom("tracker", "tracker", "tables")
const delay = fc.constantFrom(0, 5_000, 60_000, hour)
const tag = <T extends string>(value: T) => fc.constant(value)

const update = fc.record({
  _tag: tag("Update"),
  lease,
  // A send is a part of most histories; with `dies` no outcome follows.
  sends: fc.boolean(),
  outcome: fc.constantFrom(
    "Delivered" as const,
    "Waiting" as const,
    "Unknown" as const,
    "Failed" as const,
    "dies" as const
  ),
  delay,
  searches: fc.nat(3),
  sweeps: fc.boolean()
})
const command = fc.oneof(
  { weight: 2, arbitrary: fc.record({ _tag: tag("Admit"), reporter }) },
  { weight: 1, arbitrary: fc.record({ _tag: tag("Replay"), which, hasQuota: fc.boolean() }) },
  {
    weight: 6,
    arbitrary: fc.record({
      _tag: tag("Lease"),
      kinds,
      count: fc.integer({ min: 1, max: 3 }),
      concurrency: fc.integer({ min: 1, max: 5 }),
      ordinary: fc.boolean()
    })
  },
  { weight: 7, arbitrary: update },
  { weight: 1, arbitrary: fc.record({ _tag: tag("Extend"), lease, delay }) },
  { weight: 2, arbitrary: fc.record({ _tag: tag("Retry"), which, onlyFailed: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ _tag: tag("Discard"), which }) },
  {
    weight: 1,
    arbitrary: fc.record({
      _tag: tag("Clean"),
      what: fc.constantFrom("reports" as const, "anonymousReports" as const, "deliveries" as const),
      age: fc.constantFrom(0, 1_000, 60_000)
    })
  },
  { weight: 3, arbitrary: fc.record({ _tag: tag("Fail"), name, stopped: fc.boolean(), delay }) },
  { weight: 2, arbitrary: fc.record({ _tag: tag("Answer"), name, wrote: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ _tag: tag("Resume") }) },
  {
    weight: 4,
    arbitrary: fc.record({ _tag: tag("Reserve"), name, hourly: fc.integer({ min: 1, max: 4 }) })
  }
)
const step = fc.record({
  command,
  wait: fc.constantFrom(0, 1_000, 7_000, 15_000, hour / 2),
  // The clock of its host is a day ahead.
  isAhead: fc.integer({ min: 0, max: 9 }).map((value) => value === 0),
  process: fc.constantFrom(0, 1),
  reads: fc.integer({ min: 0, max: 2 }).map((value) => value === 0)
})
type Step = typeof step extends fc.Arbitrary<infer A> ? A : never

interface Played {
  readonly model: DeliveryModel
  /** Newest first. */
  readonly leases: Array<{ readonly id: string; readonly fence: number }>
}

const issueOf = (number: number) => ({ number, url: `https://github.com/harbor/music/issues/${number}` })

/** Each compares the answer of the store with the model's. */
const play = (store: StoreService, { leases, model }: Played, { command }: Step, now: number) =>
  Effect.gen(function* () {
    const { deliveries, destinations, reports, retention } = store
    const same = <A>(answer: A, expected: A) => deepStrictEqual(answer, expected, command._tag)
    /** A row of the model by number; beyond them one that does not exist. */
    const idAt = (index: number) => [...model.rows.keys()][index] ?? "report:missing"
    switch (command._tag) {
      case "Admit": {
        const number = String(model.reports.size + model.rows.size).padStart(3, "0")
        const report = sampleReport({
          id: `rep_${number}_${now}`,
          reporter: command.reporter,
          createdAt: now
        })
        const bytes = Buffer.byteLength(JSON.stringify(report.content)) + 1_000
        same((yield* reports.admit({ ...report, keyDigest: report.id }, true))._tag, "Stored")
        return model.admit({ ...report, bytes, issue: undefined })
      }
      case "Replay": {
        const found = [...model.reports.values()].filter((one) => one.reporter._tag !== "Anonymous")
        const report = found[command.which % Math.max(1, found.length)]
        if (report === undefined) return
        const again = sampleReport({ id: "rep_again", keyDigest: report.id, reporter: ana })
        const admission = yield* reports.admit(again, true, undefined, command.hasQuota)
        return same(
          admission._tag === "Replayed" && admission.movedUp,
          model.replay(report, ana, command.hasQuota)
        )
      }
      case "Lease": {
        const request = { ...command, now, leaseUntil: now + 10_000, owner: "worker" }
        const leased = yield* deliveries.lease(request)
        same<ReadonlyArray<unknown>>(leased, model.lease(request))
        leases.unshift(...leased)
        return
      }
      case "Update": {
        const held = leases[command.lease]
        if (held === undefined) return
        const { fence, id } = held
        const failure = `failure at ${now}`
        const availableAt = now + command.delay
        const updates = {
          Delivered: DeliveryUpdate.Delivered({
            at: now,
            issue: command.searches === 0 ? Option.none() : Option.some(issueOf(command.searches)),
            sweepAt: command.sweeps ? Option.some(availableAt) : Option.none()
          }),
          Waiting: DeliveryUpdate.Waiting({ availableAt, failure }),
          Unknown: DeliveryUpdate.Unknown({ availableAt, failure, searches: command.searches }),
          Failed: DeliveryUpdate.Failed({ at: now, failure })
        }
        const sending = DeliveryUpdate.Sending({ at: now })
        for (const change of [
          ...(command.sends ? [sending] : []),
          ...(command.outcome === "dies" ? [] : [updates[command.outcome]])
        ])
          same(yield* deliveries.update(id, fence, change), model.update(id, fence, change))
        return
      }
      case "Extend": {
        const held = leases[command.lease]
        if (held === undefined) return
        const until = now + command.delay
        return same(
          yield* deliveries.extend(held.id, held.fence, until),
          model.extend(held.id, held.fence, until)
        )
      }
      case "Retry": {
        const id = idAt(command.which)
        return same(yield* deliveries.retry(id, now, command), model.retry(id, now, command.onlyFailed))
      }
      case "Discard": {
        const id = idAt(command.which)
        return same(yield* deliveries.discard(id, now, "spam"), model.discard(id, now, "spam"))
      }
      case "Clean": {
        const before = now - command.age
        const removed = yield* retention[command.what](before)
        return same(
          removed,
          command.what === "deliveries"
            ? model.removeDeliveries(before)
            : model.removeReports(before, command.what === "anonymousReports")
        )
      }
      case "Fail": {
        const trouble = {
          now,
          pausedUntil: now + command.delay,
          stopped: command.stopped,
          failure: `failure at ${now}`
        }
        return same(yield* destinations.failed(command.name, trouble), model.failed(command.name, trouble))
      }
      case "Answer":
        return same(
          yield* destinations.answered(command.name, { now, wrote: command.wrote }),
          model.answered(command.name, command.wrote)
        )
      case "Resume":
        yield* destinations.resumeTracker(now)
        return model.resume(now)
      case "Reserve": {
        const pace = { now, spacing: 1_000, hourly: command.hourly }
        return same(
          yield* destinations.reserveWrite(command.name, pace),
          model.reserveWrite(command.name, pace)
        )
      }
    }
  })

const none = Option.none()
const any = { since: none, state: none, kind: none, plane: none, reporter: none, filed: none, delivery: none }
const byId = (one: { readonly id: string }, other: { readonly id: string }) => (one.id < other.id ? -1 : 1)
const page = { limit: 100, after: none }

/** Every read of the store, against the model. */
const compare = (
  { deliveries, destinations, reports }: StoreService,
  queries: OperatorQueriesService,
  model: DeliveryModel,
  now: number
) =>
  Effect.gen(function* () {
    const both = ["report", "sweep"] as const
    const { items: rows } = yield* queries.deliveries(any, page)
    deepStrictEqual(rows.toSorted(byId), model.records().toSorted(byId))
    for (const { id } of rows.slice(0, 1)) deepStrictEqual(yield* deliveries.find(id), model.find(id))
    deepStrictEqual(yield* deliveries.counts, model.counts())
    deepStrictEqual(yield* deliveries.oldestOpen, model.oldestOpen())
    for (const [concurrency, ordinary] of [
      [1, true],
      [2, false],
      [9, true]
    ] as const)
      deepStrictEqual(
        yield* deliveries.nextDueAt(both, concurrency, ordinary),
        model.nextDueAt(both, concurrency, ordinary)
      )
    const { items } = yield* queries.reports(any, page)
    deepStrictEqual(
      items.map(({ report: { id, issue, reporter } }) => ({ id, issue, reporter })).toSorted(byId),
      [...model.reports.values()].toSorted(byId).map(({ id, issue, reporter }) => ({
        id,
        issue: Option.map(Option.fromNullable(issue), issueOf),
        reporter
      }))
    )
    const bytes = [...model.reports.values()].reduce((sum, report) => sum + report.bytes, 0)
    deepStrictEqual(yield* reports.storedBytes, bytes)
    for (const one of ["tracker", "tables"]) {
      deepStrictEqual(yield* destinations.find(one), model.destination(one))
      deepStrictEqual(
        yield* destinations.writesFullUntil(one, { now, hourly: 3 }),
        model.writesFullUntil(one, now, 3)
      )
    }
    const paced = { name: "tracker", ordinaryHourly: 2 }
    const pauses = yield* destinations.pauses(now, paced)
    deepStrictEqual(pauses.toSorted(byName), model.pauses(now, paced))
  })

const run = (kind: Kind, steps: ReadonlyArray<Step>) =>
  Effect.gen(function* () {
    const path = yield* kind.freshPath
    const one = yield* kind.openStore(path)
    const other = yield* kind.openStore(path)
    const queries = yield* openQueries(path)
    const played: Played = { model: new DeliveryModel(), leases: [] }
    let now = 30 * day
    for (const next of steps) {
      now += next.wait
      const [by, reader] = next.process === 0 ? [one, other] : [other, one]
      yield* play(by, played, next, next.isAhead ? now + day : now)
      if (next.reads) yield* compare(reader, queries, played.model, now)
    }
    yield* compare(one, queries, played.model, now)
  }).pipe(Effect.scoped, Effect.provide(TestContext.TestContext))

type Command = Step["command"]
const next = (command: Command, change: Partial<Step> = {}): Step => ({
  command,
  wait: 0,
  isAhead: false,
  process: 0,
  reads: true,
  ...change
})
const admitted = next({ _tag: "Admit", reporter: ana })
const leased: Command = {
  _tag: "Lease",
  kinds: ["report", "sweep"],
  count: 1,
  concurrency: 4,
  ordinary: true
}
type Update = Extract<Command, { readonly _tag: "Update" }>
const updated = (outcome: Update["outcome"], change: Partial<Update> = {}): Step =>
  next({ _tag: "Update", lease: 0, sends: true, outcome, delay: 0, searches: 3, sweeps: false, ...change })
const reserved: Command = { _tag: "Reserve", name: "tracker", hourly: 4 }

/** Histories that random ones seldom reach. */
const examples: ReadonlyArray<ReadonlyArray<Step>> = [
  // A holder that dies while it sends again voids the searches for the earlier attempt, and one that dies while it searches does not.
  [admitted, next(leased), updated("Unknown"), next(leased), updated("dies"), next(leased, { wait: 15_000 })],
  [admitted, next(leased), updated("Unknown"), next(leased), next(leased, { wait: 15_000, process: 1 })],
  // A refused second attempt keeps the time of the first, whose outcome is unknown.
  [
    admitted,
    next(leased),
    updated("Unknown"),
    next(leased, { wait: 1_000 }),
    updated("Waiting"),
    next(leased)
  ],
  // A clock that was a day ahead: its send, its planned search, its report, and its reservations.
  [admitted, next(leased, { isAhead: true }), { ...updated("dies"), isAhead: true }, next(leased)],
  [
    admitted,
    next(leased, { isAhead: true }),
    { ...updated("Unknown", { delay: 5_000 }), isAhead: true },
    next(leased)
  ],
  [
    { ...admitted, isAhead: true },
    next(leased, { isAhead: true }),
    { ...updated("dies"), isAhead: true },
    next(leased)
  ],
  [next(reserved, { isAhead: true }), next(reserved), next(reserved), next(reserved, { wait: 7_000 })],
  // An operator's retries of a discarded and of a refused delivery search first.
  [
    admitted,
    next({ _tag: "Discard", which: 0 }),
    next({ _tag: "Retry", which: 0, onlyFailed: true }),
    next({ _tag: "Retry", which: 0, onlyFailed: false }),
    next({ _tag: "Retry", which: 0, onlyFailed: false }),
    next(leased)
  ],
  [
    admitted,
    next(leased),
    updated("Waiting", { delay: 60_000 }),
    next({ _tag: "Retry", which: 0, onlyFailed: false }),
    next(leased)
  ],
  // The end of a tracker's pause makes due what waited for it.
  [
    admitted,
    next(leased),
    updated("Waiting", { delay: 60_000 }),
    next({ _tag: "Fail", name: "tracker", stopped: true, delay: 60_000 }),
    next({ _tag: "Resume" }),
    next(leased)
  ]
]

onBoth("The law of deliveries and destinations", (kind) => {
  it("holds after every step of any sequence of operations of two processes", () =>
    fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 45 }), (steps) =>
        Effect.runPromise(run(kind, steps))
      ),
      {
        numRuns: examples.length + (kind.name === "SQLite" ? 40 : 6),
        examples: examples.map((steps) => [[...steps]])
      }
    ))
})
