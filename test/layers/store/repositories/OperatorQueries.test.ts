/** An operator's lists: their filters, and their pages while others arrive. Their commands are tested in test/cli. */
import { expect } from "vitest"
import { it } from "../../../world/Test.ts"
import { Effect, Option } from "effect"
import { CursorInvalid, type PageRequest } from "../../../../src/services/store/Pages.ts"
import { DeliveryUpdate, Unverified, Verified } from "../../../../src/services/Store.ts"
import { sampleEntry, sampleEvent, sampleLease, sampleReport, sampleSpoolLease } from "../Samples.ts"
import { onBoth } from "../Stores.ts"

const first = (limit: number): PageRequest => ({ limit, after: Option.none() })
const testing = "0199b000-0000-7000-8000-00000000000e"
const is = Option.some

type Listed =
  | { readonly report: { readonly id: string } }
  | { readonly id: string }
  | { readonly eventId: string }
  | { readonly recordId: string }
  | { readonly organisation: string; readonly plane: string }
const nameOf = (one: Listed): string => {
  if ("report" in one) return one.report.id
  if ("id" in one) return one.id
  if ("eventId" in one) return one.eventId
  return "recordId" in one ? one.recordId : `${one.organisation}/${one.plane}`
}

onBoth("An operator's lists", (kind) => {
  const opened = Effect.flatMap(kind.freshPath, kind.openStore)

  it.scopedLive(
    "continue after the last record while others arrive, and refuse the cursor of another",
    function* () {
      const { queries, reports, webhooks } = yield* opened
      const add = (id: string, createdAt: number) =>
        reports.admit(sampleReport({ id, keyDigest: id, createdAt }), false)
      for (const [index, id] of ["rep_a", "rep_b", "rep_c", "rep_d", "rep_e"].entries())
        yield* add(id, Math.ceil(index / 3))
      const seen: Array<ReadonlyArray<string>> = []
      let page = first(2)
      for (let next = Option.some(""); Option.isSome(next); page = { limit: 2, after: next }) {
        const found = yield* queries.reports({}, page)
        seen.push(found.items.map(nameOf))
        next = found.next
        yield* add(`rep_late_${seen.length}`, 9)
      }
      expect(seen).toEqual([["rep_e", "rep_d"], ["rep_c", "rep_b"], ["rep_a"]])
      for (const eventId of ["one", "two"]) yield* webhooks.receive(sampleEvent({ eventId }), [])
      const { next } = yield* queries.webhooks({}, first(1))
      for (const after of ["nonsense", "", Option.getOrThrow(next)])
        expect(yield* Effect.flip(queries.reports({}, { limit: 1, after: Option.some(after) }))).toEqual(
          new CursorInvalid()
        )
    }
  )

  it.scopedLive("have each filter", function* () {
    const { deliveries, queries, recipients, reports, spool, webhooks } = yield* opened
    for (const change of [
      { id: "rep_1", createdAt: 1_000, reporter: Verified({ publicId: "si:deejay" }) },
      { id: "rep_2", createdAt: 2_000, reporter: Unverified() },
      { id: "rep_3", createdAt: 3_000 },
      { id: "rep_4", createdAt: 4_000, plane: testing }
    ])
      yield* reports.admit(sampleReport({ ...change, keyDigest: change.id }), change.plane === undefined)
    const [at, issue] = [5_000, Option.some({ number: 1, url: "u" })]
    const filed = DeliveryUpdate.Delivered({ at, issue, sweepAt: Option.some(at) })
    const failed = DeliveryUpdate.Failed({ at, failure: "422" })
    for (const end of [filed, failed, failed])
      yield* deliveries.update(Option.getOrThrow(yield* deliveries.lease(sampleLease({ now: at - 1 }))), end)
    yield* deliveries.discard("report:rep_3", at, "filed by hand")
    yield* webhooks.receive(sampleEvent({ eventId: "one", receivedAt: 1_000, eventType: "a.b.v1" }), [])
    yield* webhooks.receive(sampleEvent({ eventId: "two", receivedAt: 2_000, plane: testing }), [])
    const ana = { organisationUuid: "uuid", publicId: "c:ana" }
    for (const [organisation, plane] of [
      ["acme", "production"],
      ["zenith", "production"],
      ["acme", testing]
    ] as const)
      yield* recipients.activate({ ...ana, plane, organisation })
    const other = "musicfrontendevents"
    yield* spool.offer([sampleEntry("a"), sampleEntry("b", { table: other })], { limitBytes: 1e6 })
    yield* spool.lease(sampleSpoolLease())
    const settled = { owner: "worker", delivered: [], duplicates: [] }
    yield* spool.settle({ ...settled, now: 5_000, refused: [{ recordId: "a", code: "size_exceeded" }] })
    yield* spool.settle({ ...settled, now: 6_000, refused: [{ recordId: "b", code: "invalid" }] })

    const all = first(10)
    const rows = [
      [queries.reports({}, all), "rep_4 rep_3 rep_2 rep_1"],
      [queries.reports({ since: is(2_000) }, all), "rep_4 rep_3 rep_2"],
      [queries.reports({ plane: is("production") }, all), "rep_3 rep_2 rep_1"],
      [queries.reports({ reporter: is("si:deejay") }, all), "rep_1"],
      [queries.reports({ reporter: is("unverified") }, all), "rep_2"],
      [queries.reports({ filed: is(true) }, all), "rep_1"],
      [queries.reports({ filed: is(false) }, all), "rep_4 rep_3 rep_2"],
      [queries.reports({ delivery: is("delivered") }, all), "rep_1"],
      [queries.reports({ delivery: is("failed") }, all), "rep_2"],
      [queries.reports({ delivery: is("discarded") }, all), "rep_3"],
      [queries.deliveries({}, all), "sweep:rep_1 report:rep_3 report:rep_2 report:rep_1"],
      [queries.deliveries({ kind: is("sweep") }, all), "sweep:rep_1"],
      [queries.deliveries({ state: is("failed") }, all), "report:rep_2"],
      [queries.deliveries({ state: is("discarded") }, all), "report:rep_3"],
      [queries.deliveries({ kind: is("report"), since: is(2_000) }, all), "report:rep_3 report:rep_2"],
      [queries.webhooks({ eventType: is("a.b.v1") }, all), "one"],
      [queries.webhooks({ plane: is(testing) }, all), "two"],
      [queries.webhooks({ since: is(1_001) }, all), "two"],
      [queries.recipients({ organisation: is("acme") }, all), `acme/${testing} acme/production`],
      [queries.recipients({ plane: is(testing) }, all), `acme/${testing}`],
      [queries.recipients({ publicId: is("c:ana"), organisation: is("zenith") }, all), "zenith/production"],
      [queries.recipients({ publicId: is("c:other") }, all), ""],
      [queries.refusals({}, all), "b a"],
      [queries.refusals({ table: is(other) }, all), "b"],
      [queries.refusals({ code: is("size_exceeded") }, all), "a"],
      [queries.refusals({ since: is(6_000) }, all), "b"]
    ] as const
    for (const [index, [list, expected]] of rows.entries()) {
      const items: ReadonlyArray<Listed> = (yield* list).items
      expect([index, items.map(nameOf).join(" ")]).toEqual([index, expected])
    }
  })
})
