import { describe, expect } from "vitest"
import { it } from "../../../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { makeOperatorQueries } from "../../../../src/layers/store/repositories/OperatorQueries.ts"
import {
  CursorInvalid,
  type DeliveryFilter,
  type Page,
  type PageRequest,
  type OperatorQueriesService,
  type RecipientFilter,
  type RefusalFilter,
  type ReportFilter,
  type WebhookFilter
} from "../../../../src/services/OperatorQueries.ts"
import { DeliveryUpdate, Unverified, Verified } from "../../../../src/services/Store.ts"
import {
  type Kind,
  onBoth,
  openUnmigrated,
  sampleEntry,
  sampleEvent,
  sampleLease,
  sampleReport,
  sampleSpoolLease
} from "../Stores.ts"

/** A store and the operator queries on one database. */
const opened = (kind: Kind) =>
  Effect.gen(function* () {
    const place = yield* kind.freshPath
    const store = yield* kind.openStore(place)
    return { store, records: makeOperatorQueries(yield* openUnmigrated(place)) }
  })

const anyReport = {
  since: Option.none(),
  plane: Option.none(),
  reporter: Option.none(),
  filed: Option.none(),
  delivery: Option.none()
}
const anyDelivery = { since: Option.none(), state: Option.none(), kind: Option.none() }
const anyWebhook = { since: Option.none(), plane: Option.none(), eventType: Option.none() }
const anyRefusal = { since: Option.none(), table: Option.none(), code: Option.none() }
const anyRecipient = { plane: Option.none(), organisation: Option.none(), publicId: Option.none() }

const first = (limit: number): PageRequest => ({ limit, after: Option.none() })
const next = <A>(page: Page<A>, limit: number): PageRequest => ({ limit, after: page.next })

const idsOf = (page: Effect.Effect.Success<ReturnType<OperatorQueriesService["reports"]>>) =>
  page.items.map(({ report }) => report.id)

onBoth("Records", (kind) => {
  describe("pages", () => {
    it.scopedLive(
      "continue after the last record while others arrive, and skip none among equal times",
      function* () {
        const { records, store } = yield* opened(kind)
        const add = (id: string, createdAt: number) =>
          store.reports.admit(sampleReport({ id, keyDigest: id, createdAt }), false)
        for (const [id, at] of [
          ["rep_a", 1],
          ["rep_b", 2],
          ["rep_c", 2],
          ["rep_d", 2],
          ["rep_e", 3]
        ] as const)
          yield* add(id, at)
        const one = yield* records.reports(anyReport, first(2))
        expect(idsOf(one)).toEqual(["rep_e", "rep_d"])
        yield* add("rep_f", 9)
        const two = yield* records.reports(anyReport, next(one, 2))
        expect(idsOf(two)).toEqual(["rep_c", "rep_b"])
        const three = yield* records.reports(anyReport, next(two, 2))
        expect(idsOf(three)).toEqual(["rep_a"])
        expect(three.next).toEqual(Option.none())
      }
    )

    it.scopedLive("refuse the cursor of another list", function* () {
      const { records, store } = yield* opened(kind)
      yield* store.webhooks.receive(sampleEvent({ eventId: "one" }), [])
      yield* store.webhooks.receive(sampleEvent({ eventId: "two" }), [])
      const page = yield* records.webhooks(anyWebhook, first(1))
      for (const after of ["nonsense", "", Option.getOrThrow(page.next)])
        expect(
          yield* Effect.flip(records.reports(anyReport, { limit: 1, after: Option.some(after) }))
        ).toEqual(new CursorInvalid())
    })
  })

  it.scopedLive("reports are listed by each filter, with their delivery", function* () {
    const { records, store } = yield* opened(kind)
    const samples = [
      { id: "rep_1", createdAt: 1, reporter: Verified({ publicId: "si:deejay" }) },
      { id: "rep_2", createdAt: 2, reporter: Unverified() },
      { id: "rep_3", createdAt: 3, plane: "0199b000-0000-7000-8000-00000000000e" }
    ]
    for (const sample of samples)
      yield* store.reports.admit(
        sampleReport({ ...sample, keyDigest: sample.id }),
        sample.plane === undefined
      )
    const ids = (filter: Partial<ReportFilter>) =>
      Effect.map(records.reports({ ...anyReport, ...filter }, first(10)), idsOf)
    expect(yield* ids({})).toEqual(["rep_3", "rep_2", "rep_1"])
    expect(yield* ids({ since: Option.some(2) })).toEqual(["rep_3", "rep_2"])
    expect(yield* ids({ plane: Option.some("production") })).toEqual(["rep_2", "rep_1"])
    expect(yield* ids({ reporter: Option.some("si:deejay") })).toEqual(["rep_1"])
    expect(yield* ids({ reporter: Option.some("unverified") })).toEqual(["rep_2"])
    expect(yield* ids({ filed: Option.some(true) })).toEqual([])
    expect(yield* ids({ delivery: Option.some("waiting") })).toEqual(["rep_2", "rep_1"])
    const found = Option.getOrThrow(yield* records.report("rep_1"))
    expect(Option.getOrThrow(found.delivery)).toMatchObject({ id: "report:rep_1", state: "waiting" })
    expect(yield* records.report("rep_9")).toEqual(Option.none())
  })

  it.scopedLive("a report gets a delivery once, and only one of production that has none", function* () {
    const { records, store } = yield* opened(kind)
    yield* store.reports.admit(sampleReport({ id: "rep_1", keyDigest: "1" }), false)
    yield* store.reports.admit(
      sampleReport({ id: "rep_2", keyDigest: "2", plane: "0199b000-0000-7000-8000-00000000000e" }),
      false
    )
    expect(yield* records.enqueue("rep_1", 5_000)).toBe(true)
    expect(yield* records.enqueue("rep_1", 6_000)).toBe(false)
    expect(yield* records.enqueue("rep_2", 5_000)).toBe(false)
    expect(yield* records.enqueue("rep_9", 5_000)).toBe(false)
    const { items } = yield* records.deliveries(anyDelivery, first(10))
    expect(items).toMatchObject([
      // An earlier delivery may have been removed, so the worker searches first.
      { id: "report:rep_1", state: "unknown", availableAt: 5_000, finishedAt: Option.none() }
    ])
    expect(yield* records.delivery("report:rep_1")).toEqual(Option.some(items[0]))
  })

  it.scopedLive("a discarded delivery is not a failure, and has a separate list", function* () {
    const { records, store } = yield* opened(kind)
    for (const id of ["rep_1", "rep_2"])
      yield* store.reports.admit(sampleReport({ id, keyDigest: id, createdAt: 1_000 }), true)
    for (const { fence, id } of yield* store.deliveries.lease(sampleLease()))
      yield* store.deliveries.update(id, fence, DeliveryUpdate.Failed({ at: 3_000, failure: "422" }))
    yield* store.deliveries.discard("report:rep_2", 4_000, "filed by hand")
    const ids = (filter: Partial<DeliveryFilter>) =>
      Effect.map(records.deliveries({ ...anyDelivery, ...filter }, first(10)), ({ items }) =>
        items.map(({ id }) => id)
      )
    expect(yield* ids({})).toEqual(["report:rep_2", "report:rep_1"])
    expect(yield* ids({ state: Option.some("failed") })).toEqual(["report:rep_1"])
    expect(yield* ids({ state: Option.some("discarded") })).toEqual(["report:rep_2"])
    const reports = (delivery: ReportFilter["delivery"]) =>
      Effect.map(records.reports({ ...anyReport, delivery }, first(10)), idsOf)
    expect(yield* reports(Option.some("failed"))).toEqual(["rep_1"])
    expect(yield* reports(Option.some("discarded"))).toEqual(["rep_2"])
  })

  it.scopedLive("webhooks and registrations are listed, the latter by organisation", function* () {
    const { records, store } = yield* opened(kind)
    yield* store.webhooks.receive(sampleEvent({ eventId: "one", receivedAt: 1, eventType: "a.b.v1" }), [])
    yield* store.webhooks.receive(sampleEvent({ eventId: "two", receivedAt: 2 }), [])
    const events = yield* records.webhooks({ ...anyWebhook, eventType: Option.some("a.b.v1") }, first(10))
    expect(events.items).toMatchObject([{ eventId: "one", receivedAt: 1 }])

    for (const organisation of ["zenith", "acme"])
      yield* store.recipients.activate({
        plane: "production",
        organisation,
        organisationUuid: `uuid of ${organisation}`,
        publicId: "c:ana"
      })
    yield* store.recipients.deactivate({ plane: "production", organisation: "zenith", publicId: "c:ana" })
    const filter = { ...anyRecipient, publicId: Option.some("c:ana") }
    const one = yield* records.recipients(filter, first(1))
    expect(one.items).toMatchObject([{ organisation: "acme", active: true, subscriptionId: Option.none() }])
    const two = yield* records.recipients(filter, next(one, 1))
    expect(two.items).toMatchObject([{ organisation: "zenith", active: false }])
    expect(two.next).toEqual(Option.none())
  })

  it.scopedLive("deliveries, webhooks, registrations and refusals are listed by each filter", function* () {
    const { records, store } = yield* opened(kind)
    for (const [id, createdAt] of [
      ["rep_1", 1_000],
      ["rep_2", 2_000]
    ] as const)
      yield* store.reports.admit(sampleReport({ id, keyDigest: id, createdAt }), true)
    const [leased] = yield* store.deliveries.lease(sampleLease())
    if (leased !== undefined)
      yield* store.deliveries.update(
        leased.id,
        leased.fence,
        DeliveryUpdate.Delivered({ at: 3_000, issue: Option.none(), sweepAt: Option.some(4_000) })
      )
    const deliveries = (filter: Partial<DeliveryFilter>) =>
      Effect.map(records.deliveries({ ...anyDelivery, ...filter }, first(10)), ({ items }) =>
        items.map((one) => `${one.kind} ${one.subject}`).sort()
      )
    const [filed, other] = leased?.subject === "rep_2" ? ["rep_2", "rep_1"] : ["rep_1", "rep_2"]
    expect(yield* deliveries({ kind: Option.some("sweep") })).toEqual([`sweep ${filed}`])
    expect(yield* deliveries({ kind: Option.some("report") })).toEqual(["report rep_1", "report rep_2"])
    expect(yield* deliveries({ state: Option.some("delivered") })).toEqual([`report ${filed}`])
    expect(yield* deliveries({ state: Option.some("leased") })).toEqual([`report ${other}`])
    expect(yield* deliveries({ kind: Option.some("report"), since: Option.some(2_000) })).toEqual([
      "report rep_2"
    ])

    const plane = "0199b000-0000-7000-8000-00000000000e"
    yield* store.webhooks.receive(sampleEvent({ eventId: "one", receivedAt: 1_000 }), [])
    yield* store.webhooks.receive(sampleEvent({ eventId: "two", receivedAt: 2_000, plane }), [])
    const webhooks = (filter: Partial<WebhookFilter>) =>
      Effect.map(records.webhooks({ ...anyWebhook, ...filter }, first(10)), ({ items }) =>
        items.map(({ eventId }) => eventId)
      )
    expect(yield* webhooks({ plane: Option.some("production") })).toEqual(["one"])
    expect(yield* webhooks({ plane: Option.some(plane) })).toEqual(["two"])
    expect(yield* webhooks({ since: Option.some(1_001) })).toEqual(["two"])

    for (const [organisation, where] of [
      ["acme", "production"],
      ["zenith", "production"],
      ["acme", plane]
    ] as const)
      yield* store.recipients.activate({
        plane: where,
        organisation,
        organisationUuid: `uuid of ${organisation}`,
        publicId: "c:ana"
      })
    const recipients = (filter: Partial<RecipientFilter>) =>
      Effect.map(records.recipients({ ...anyRecipient, ...filter }, first(10)), ({ items }) =>
        items.map((one) => `${one.organisation} ${one.plane}`).sort()
      )
    expect(yield* recipients({ organisation: Option.some("acme") })).toEqual(
      [`acme ${plane}`, "acme production"].sort()
    )
    expect(yield* recipients({ plane: Option.some(plane) })).toEqual([`acme ${plane}`])
    expect(yield* recipients({ publicId: Option.some("c:other") })).toEqual([])

    const { spool } = store
    yield* spool.offer([sampleEntry("a"), sampleEntry("b", { table: "musicfrontendevents" })], {
      limitBytes: 1e6
    })
    yield* spool.lease(sampleSpoolLease({ tables: new Set(["musicclidaemon", "musicfrontendevents"]) }))
    for (const [recordId, now] of [
      ["a", 5_000],
      ["b", 6_000]
    ] as const)
      yield* spool.settle({
        owner: "worker",
        now,
        delivered: [],
        duplicates: [],
        refused: [{ recordId, code: recordId === "a" ? "size_exceeded" : "invalid" }]
      })
    const refusals = (filter: Partial<RefusalFilter>) =>
      Effect.map(records.refusals({ ...anyRefusal, ...filter }, first(10)), ({ items }) =>
        items.map(({ recordId }) => recordId)
      )
    expect(yield* refusals({})).toEqual(["b", "a"])
    expect(yield* refusals({ table: Option.some("musicfrontendevents") })).toEqual(["b"])
    expect(yield* refusals({ code: Option.some("size_exceeded") })).toEqual(["a"])
    expect(yield* refusals({ since: Option.some(6_000) })).toEqual(["b"])
  })
})
