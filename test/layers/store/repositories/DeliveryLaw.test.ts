/** Two processes on one database do to deliveries and destinations what the model does in memory, whatever the order. */
import { it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as fc from "effect/FastCheck"
import * as Option from "effect/Option"
import * as TestContext from "effect/TestContext"
import type { OperatorQueriesService } from "../../../../src/services/store/OperatorQueries.ts"
import {
  Anonymous,
  type Delivery,
  DeliveryUpdate,
  type Reporter,
  type StoreService,
  Unverified,
  Verified
} from "../../../../src/services/Store.ts"
import { sampleReport } from "../Samples.ts"
import { type Kind, onBoth } from "../Stores.ts"
import { byName, day, DeliveryModel, hour } from "./DeliveryModel.ts"

const ana = Verified({ publicId: "c:ana" })
const which = fc.nat(5)
/** Most often the newest lease, sometimes one whose fence is older. */
const lease = fc.constantFrom(0, 0, 0, 1, 1, 2, 5)
const reporter = fc.constantFrom<Reporter>(Anonymous(), Unverified(), ana)
const name = fc.constantFrom("tracker", "tracker", "tables")
const delay = fc.constantFrom(0, 5_000, 60_000, hour)
const tagged = <Tag extends string, A>(tag: Tag, model: { [K in keyof A]: fc.Arbitrary<A[K]> }) =>
  fc.record({ _tag: fc.constant(tag), ...model })
const outcomes = ["Delivered", "Waiting", "Unknown", "Failed", "Released", "dies"] as const
const removals = ["reports", "anonymousReports", "deliveries"] as const
const often = <A>(weight: number, arbitrary: fc.Arbitrary<A>) => ({ weight, arbitrary })

const command = fc.oneof(
  often(2, tagged("Admit", { reporter })),
  often(1, tagged("Replay", { which, hasQuota: fc.boolean() })),
  often(
    6,
    tagged("Lease", { count: fc.integer({ min: 1, max: 3 }), concurrency: fc.integer({ min: 1, max: 5 }) })
  ),
  often(
    7,
    // A send is a part of most histories; with `dies` no outcome follows.
    tagged("Update", {
      lease,
      sends: fc.boolean(),
      outcome: fc.constantFrom(...outcomes),
      delay,
      searches: fc.nat(3),
      sweeps: fc.boolean()
    })
  ),
  often(1, tagged("Extend", { lease, delay })),
  often(2, tagged("Retry", { which, onlyFailed: fc.boolean() })),
  often(1, tagged("Discard", { which })),
  often(1, tagged("Clean", { what: fc.constantFrom(...removals), age: fc.constantFrom(0, 1_000, 60_000) })),
  often(3, tagged("Fail", { name, stopped: fc.boolean(), delay })),
  often(2, tagged("Answer", { name, wrote: fc.boolean() })),
  often(1, tagged("Resume", {})),
  often(4, tagged("Reserve", { name, hourly: fc.integer({ min: 1, max: 4 }) }))
)
const step = fc.record({
  command,
  wait: fc.constantFrom(0, 1_000, 7_000, 15_000, hour / 2),
  process: fc.constantFrom(0, 1),
  reads: fc.integer({ min: 0, max: 2 }).map((value) => value === 0)
})
type Step = typeof step extends fc.Arbitrary<infer A> ? A : never

interface Played {
  readonly model: DeliveryModel
  /** Newest first. */
  readonly leases: Array<Delivery>
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
        const request = { ...command, now, leaseUntil: now + 10_000 }
        const leased = yield* deliveries.lease(request)
        same<ReadonlyArray<unknown>>(leased, model.lease(request))
        leases.unshift(...leased)
        return
      }
      case "Update": {
        const held = leases[command.lease]
        if (held === undefined) return
        const { delay, outcome, searches, sends, sweeps } = command
        const pending = { availableAt: now + delay, failure: `failure at ${now}` }
        const issue = searches === 0 ? Option.none() : Option.some(issueOf(searches))
        const sweepAt = sweeps ? Option.some(now + delay) : Option.none()
        const changes = {
          Delivered: [DeliveryUpdate.Delivered({ at: now, issue, sweepAt })],
          Waiting: [DeliveryUpdate.Waiting(pending)],
          Unknown: [DeliveryUpdate.Unknown({ ...pending, searches })],
          Failed: [DeliveryUpdate.Failed({ at: now, failure: pending.failure })],
          Released: [DeliveryUpdate.Released(pending)],
          dies: []
        }[outcome]
        for (const change of [...(sends ? [DeliveryUpdate.Sending({ at: now })] : []), ...changes])
          same(yield* deliveries.update(held, change), model.update(held, change))
        return
      }
      case "Extend": {
        const held = leases[command.lease]
        if (held === undefined) return
        const given = [held, now + command.delay] as const
        return same(yield* deliveries.extend(...given), model.extend(...given))
      }
      case "Retry": {
        const id = idAt(command.which)
        return same(yield* deliveries.retry(id, now, command), model.retry(id, now, command.onlyFailed))
      }
      case "Discard": {
        const given = [idAt(command.which), now, "spam"] as const
        return same(yield* deliveries.discard(...given), model.discard(...given))
      }
      case "Clean": {
        const before = now - command.age
        const isAnonymous = command.what === "anonymousReports"
        const expected =
          command.what === "deliveries"
            ? model.removeDeliveries(before)
            : model.removeReports(before, isAnonymous)
        return same(yield* retention[command.what](before), expected)
      }
      case "Fail": {
        const { delay, name, stopped } = command
        const trouble = { now, pausedUntil: now + delay, stopped, failure: `failure at ${now}` }
        return same(yield* destinations.failed(name, trouble), model.failed(name, trouble))
      }
      case "Answer": {
        const { name, wrote } = command
        return same(yield* destinations.answered(name, { now, wrote }), model.answered(name, wrote))
      }
      case "Resume":
        yield* destinations.resume(now)
        return model.resume(now)
      case "Reserve": {
        const { hourly, name } = command
        const pace = { now, spacing: 1_000, hourly }
        return same(yield* destinations.reserveWrite(name, pace), model.reserveWrite(name, pace))
      }
    }
  })

const byId = (one: { readonly id: string }, other: { readonly id: string }) => (one.id < other.id ? -1 : 1)
const page = { limit: 100, after: Option.none() }

/** Every read of the store, against the model. */
const compare = (
  { deliveries, destinations, reports }: StoreService,
  queries: OperatorQueriesService,
  model: DeliveryModel,
  now: number
) =>
  Effect.gen(function* () {
    const { items: rows } = yield* queries.deliveries({}, page)
    deepStrictEqual(rows.toSorted(byId), model.list().toSorted(byId))
    for (const { id } of rows.slice(0, 1)) deepStrictEqual(yield* deliveries.find(id), model.find(id))
    deepStrictEqual(yield* deliveries.counts, model.counts())
    deepStrictEqual(yield* deliveries.oldestOpen, model.oldestOpen())
    deepStrictEqual(yield* deliveries.nextDueAt, model.nextDueAt())
    const { items } = yield* queries.reports({}, page)
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
    for (const one of ["tracker", "tables"])
      deepStrictEqual(yield* destinations.find(one), model.destination(one))
    const pauses = yield* destinations.pauses(now)
    deepStrictEqual(pauses.toSorted(byName), model.pauses(now))
  })

const run = (kind: Kind, steps: ReadonlyArray<Step>) =>
  Effect.gen(function* () {
    const path = yield* kind.freshPath
    const one = yield* kind.openStore(path)
    const other = yield* kind.openStore(path)
    const { queries } = one
    const played: Played = { model: new DeliveryModel(), leases: [] }
    let now = 30 * day
    for (const next of steps) {
      now += next.wait
      const [by, reader] = next.process === 0 ? [one, other] : [other, one]
      yield* play(by, played, next, now)
      if (next.reads) yield* compare(reader, queries, played.model, now)
    }
    yield* compare(one, queries, played.model, now)
  }).pipe(Effect.scoped, Effect.provide(TestContext.TestContext))

type Command = Step["command"]
const update = { _tag: "Update", lease: 0, sends: true, delay: 0, searches: 3, sweeps: false } as const
const words: Readonly<Record<string, Command>> = {
  admit: { _tag: "Admit", reporter: ana },
  lease: { _tag: "Lease", count: 1, concurrency: 4 },
  lost: { ...update, outcome: "Unknown" },
  refused: { ...update, outcome: "Waiting" },
  refusedFor60s: { ...update, outcome: "Waiting", delay: 60_000 },
  dies: { ...update, outcome: "dies" },
  refusedLate: { ...update, lease: 1, outcome: "Waiting" },
  discard: { _tag: "Discard", which: 0 },
  retry: { _tag: "Retry", which: 0, onlyFailed: false },
  retryFailed: { _tag: "Retry", which: 0, onlyFailed: true },
  stop: { _tag: "Fail", name: "tracker", stopped: true, delay: 60_000 },
  resume: { _tag: "Resume" },
  reserve: { _tag: "Reserve", name: "tracker", hourly: 4 },
  cleanReports: { _tag: "Clean", what: "reports", age: 0 },
  cleanDeliveries: { _tag: "Clean", what: "deliveries", age: 0 }
}

/** Histories that random ones seldom reach. `+15` is 15 s later, `'` by the other process. */
const examples = [
  // A holder that dies while it sends again voids the searches for the earlier attempt, and one that dies while it searches does not.
  "admit lease lost lease dies lease+15",
  "admit lease lost lease lease+15'",
  // A holder whose lease ended changes nothing under the next one.
  "admit lease lease+15 refusedLate",
  // A refused second attempt keeps the time of the first, whose outcome is unknown.
  "admit lease lost lease+1 refused lease",
  "reserve reserve reserve reserve+7",
  // An operator's retries of a discarded and of a refused delivery search first.
  "admit discard discard+1 retryFailed retry retry lease",
  "admit lease refusedFor60s retry lease",
  // The end of a tracker's pause makes due what waited for it.
  "admit lease refusedFor60s stop resume lease",
  // A report is kept while it is not filed, and the delivery of one that never will be for as long as its report.
  "admit cleanReports+1 discard cleanDeliveries+1 cleanReports+1 cleanDeliveries"
].map((history) =>
  history.split(" ").map((word): Step => {
    const [, name = "", wait = "0"] = /^(\w+?)(?:\+(\d+))?'?$/.exec(word) ?? []
    const command = words[name]
    if (command === undefined) throw new Error(word)
    const process = word.includes("'") ? 1 : 0
    return { command, wait: Number(wait) * 1_000, process, reads: true }
  })
)

onBoth("The law of deliveries and destinations", (kind) => {
  it("holds after every step of any sequence of operations of two processes", () =>
    fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 45 }), (steps) =>
        Effect.runPromise(run(kind, steps))
      ),
      {
        numRuns: examples.length + (kind.name === "SQLite" ? 12 : 3),
        examples: examples.map((steps) => [steps])
      }
    ))
})
