import { expect } from "vitest"
import { it } from "../../../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { OperatorQueriesService } from "../../../../src/services/store/OperatorQueries.ts"
import { CursorInvalid, type Page, type PageRequest } from "../../../../src/services/store/Pages.ts"
import { Unverified, Verified } from "../../../../src/services/Store.ts"
import { sampleEntry, sampleEvent, sampleLease, sampleReport, sampleSpoolLease } from "../Samples.ts"
import { type Kind, onBoth } from "../Stores.ts"

/** A store and the operator queries on one database. */
const opened = (kind: Kind) =>
  Effect.gen(function* () {
    const store = yield* kind.openStore(yield* kind.freshPath)
    const { queries } = store
    const first = (limit: number): PageRequest => ({ limit, after: Option.none() })
    /** A list without filters, or with some. */
    const list = (name: "reports" | "deliveries" | "webhooks" | "recipients" | "refusals") => {
      const names =
        "since plane reporter filed delivery state kind eventType organisation publicId table code".split(" ")
      const any = Object.fromEntries(names.map((filter) => [filter, Option.none()]))
      const select = queries[name] as (
        filter: object,
        page: PageRequest
      ) => Effect.Effect<Page<object>, unknown>
      return (filter: object, page = first(10)) =>
        select(
          {
            ...any,
            ...Object.fromEntries(Object.entries(filter).map(([key, value]) => [key, Option.some(value)]))
          },
          page
        )
    }
    return { ...store, list, first }
  })

const idOf = (item: object): string => {
  const report: unknown = Reflect.get(item, "report")
  return String(
    Reflect.get(item, "id") ??
      Reflect.get(item, "eventId") ??
      Reflect.get(item, "recordId") ??
      (typeof report === "object" && report !== null
        ? Reflect.get(report, "id")
        : `${Reflect.get(item, "organisation")} ${Reflect.get(item, "plane")}`)
  )
}
const testing = "0199b000-0000-7000-8000-00000000000e"

onBoth("An operator's lists", (kind) => {
  it.scopedLive(
    "continue after the last record while others arrive, and refuse the cursor of another",
    function* () {
      const { first, list, reports, webhooks } = yield* opened(kind)
      const add = (id: string, createdAt: number) =>
        reports.admit(sampleReport({ id, keyDigest: id, createdAt }), false)
      for (const [id, at] of [
        ["rep_a", 1],
        ["rep_b", 2],
        ["rep_c", 2],
        ["rep_d", 2],
        ["rep_e", 3]
      ] as const)
        yield* add(id, at)
      const seen: Array<ReadonlyArray<string>> = []
      let page = first(2)
      for (let next = Option.some(""); Option.isSome(next); page = { limit: 2, after: next }) {
        const found = yield* list("reports")({}, page)
        seen.push(found.items.map(idOf))
        next = found.next
        yield* add(`rep_late_${seen.length}`, 9)
      }
      expect(seen).toEqual([["rep_e", "rep_d"], ["rep_c", "rep_b"], ["rep_a"]])
      for (const eventId of ["one", "two"]) yield* webhooks.receive(sampleEvent({ eventId }), [])
      const { next } = yield* list("webhooks")({}, first(1))
      for (const after of ["nonsense", "", Option.getOrThrow(next)])
        expect(yield* Effect.flip(list("reports")({}, { limit: 1, after: Option.some(after) }))).toEqual(
          new CursorInvalid()
        )
    }
  )

  it.scopedLive("have each filter", function* () {
    const world = yield* opened(kind)
    const { deliveries, list, queries, recipients, reports, spool, webhooks } = world
    for (const change of [
      { id: "rep_1", createdAt: 1_000, reporter: Verified({ publicId: "si:deejay" }) },
      { id: "rep_2", createdAt: 2_000, reporter: Unverified() },
      { id: "rep_3", createdAt: 3_000 },
      { id: "rep_4", createdAt: 4_000, plane: testing }
    ])
      yield* reports.admit(sampleReport({ ...change, keyDigest: change.id }), change.plane === undefined)
    const at = 5_000
    for (const leased of yield* deliveries.lease(sampleLease({ now: at })))
      yield* deliveries.update(
        leased,
        leased.subject === "rep_1"
          ? {
              _tag: "Delivered",
              at,
              issue: Option.some({ number: 1, url: "u" }),
              sweepAt: Option.some(at)
            }
          : { _tag: "Failed", at, failure: "422" }
      )
    yield* deliveries.discard("report:rep_3", at, "filed by hand")
    yield* webhooks.receive(sampleEvent({ eventId: "one", receivedAt: 1_000, eventType: "a.b.v1" }), [])
    yield* webhooks.receive(sampleEvent({ eventId: "two", receivedAt: 2_000, plane: testing }), [])
    for (const [organisation, plane] of [
      ["acme", "production"],
      ["zenith", "production"],
      ["acme", testing]
    ] as const)
      yield* recipients.activate({ plane, organisation, organisationUuid: "uuid", publicId: "c:ana" })
    yield* spool.offer([sampleEntry("a"), sampleEntry("b", { table: "musicfrontendevents" })], {
      limitBytes: 1e6
    })
    yield* spool.lease(sampleSpoolLease())
    for (const [recordId, code, now] of [
      ["a", "size_exceeded", 5_000],
      ["b", "invalid", 6_000]
    ] as const)
      yield* spool.settle({
        owner: "worker",
        now,
        delivered: [],
        duplicates: [],
        refused: [{ recordId, code }]
      })
    const rows: ReadonlyArray<readonly [Parameters<typeof list>[0], object, string]> = [
      ["reports", {}, "rep_4 rep_3 rep_2 rep_1"],
      ["reports", { since: 2_000 }, "rep_4 rep_3 rep_2"],
      ["reports", { plane: "production" }, "rep_3 rep_2 rep_1"],
      ["reports", { reporter: "si:deejay" }, "rep_1"],
      ["reports", { reporter: "unverified" }, "rep_2"],
      ["reports", { filed: true }, "rep_1"],
      ["reports", { filed: false }, "rep_4 rep_3 rep_2"],
      ["reports", { delivery: "delivered" }, "rep_1"],
      ["reports", { delivery: "failed" }, "rep_2"],
      ["reports", { delivery: "discarded" }, "rep_3"],
      ["deliveries", {}, "sweep:rep_1 report:rep_3 report:rep_2 report:rep_1"],
      ["deliveries", { kind: "sweep" }, "sweep:rep_1"],
      ["deliveries", { state: "failed" }, "report:rep_2"],
      ["deliveries", { state: "discarded" }, "report:rep_3"],
      ["deliveries", { kind: "report", since: 2_000 }, "report:rep_3 report:rep_2"],
      ["webhooks", { eventType: "a.b.v1" }, "one"],
      ["webhooks", { plane: testing }, "two"],
      ["webhooks", { since: 1_001 }, "two"],
      ["recipients", { organisation: "acme" }, `acme ${testing}|acme production`],
      ["recipients", { plane: testing }, `acme ${testing}`],
      ["recipients", { publicId: "c:ana", organisation: "zenith" }, "zenith production"],
      ["recipients", { publicId: "c:other" }, ""],
      ["refusals", {}, "b a"],
      ["refusals", { table: "musicfrontendevents" }, "b"],
      ["refusals", { code: "size_exceeded" }, "a"],
      ["refusals", { since: 6_000 }, "b"]
    ]
    for (const [name, filter, expected] of rows) {
      const found = (yield* list(name)(filter)).items.map(idOf)
      const asked = `${name} ${JSON.stringify(filter)}`
      expect([asked, found.join(name === "recipients" ? "|" : " ")]).toEqual([asked, expected])
    }
    const one: Effect.Effect.Success<ReturnType<OperatorQueriesService["report"]>> =
      yield* queries.report("rep_1")
    expect(Option.getOrThrow(Option.getOrThrow(one).delivery)).toMatchObject({ id: "report:rep_1" })
    expect(yield* queries.report("rep_9")).toEqual(Option.none())
  })

  it.scopedLive("a report gets a delivery once, and only one of production that has none", function* () {
    const { deliveries, list, queries, reports } = yield* opened(kind)
    yield* reports.admit(sampleReport({ id: "rep_1", keyDigest: "1" }), false)
    yield* reports.admit(sampleReport({ id: "rep_2", keyDigest: "2", plane: testing }), false)
    const answers = yield* Effect.forEach(["rep_1", "rep_1", "rep_2", "rep_9"], (id, index) =>
      queries.enqueue(id, 5_000 + index)
    )
    expect(answers).toEqual([true, false, false, false])
    const { items } = yield* list("deliveries")({})
    expect(items).toMatchObject([
      // An earlier delivery may have been removed, so the worker searches first.
      { id: "report:rep_1", state: "unknown", availableAt: 5_000, finishedAt: Option.none() }
    ])
    expect(yield* deliveries.find("report:rep_1")).toEqual(Option.some(items[0]))
  })
})
