/** What two processes on one database do to deliveries and destinations, by histories. */
import { it } from "../../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import { Effect, Option } from "effect"
import {
  Anonymous,
  type Delivery,
  DeliveryUpdate,
  type Reporter,
  type StoredDelivery,
  Unverified,
  Verified
} from "../../../../src/services/Store.ts"
import { sampleReport } from "../Samples.ts"
import { onBoth, type Opened } from "../Stores.ts"

const start = 1_000_000_000_000
const ana = Verified({ publicId: "c:ana" })
const issue = Option.some({ number: 7, url: "https://github.com/harbor/music/issues/7" })
const failure = "502"

/** Times are seconds since the start. */
const since = (at: number) => (at - start) / 1_000
const optional = (at: Option.Option<number>) =>
  Option.match(at, { onNone: () => "-", onSome: (some) => String(since(some)) })
/** Attempts and searches follow the state; what was never set is left out. */
const shown = ({ state, ...row }: StoredDelivery): string =>
  [
    `${row.id} ${state} ${row.attempts}/${row.searches} due ${since(row.availableAt)}`,
    ...Option.match(row.sentAt, { onNone: () => [], onSome: (at) => [`sent ${since(at)}`] }),
    ...Option.match(row.finishedAt, { onNone: () => [], onSome: (at) => [`over ${since(at)}`] }),
    ...Option.toArray(row.lastFailure)
  ].join(" ")

/** A moment of a history. */
interface At extends Opened {
  readonly now: number
  /** Reports are a, b and so on. */
  readonly ids: Array<string>
  /** Newest first. */
  readonly leases: Array<Delivery>
}

const admit = (reporter: Reporter) => (at: At) => {
  const id = String.fromCharCode(97 + at.ids.length)
  at.ids.push(id)
  return at.reports.admit(sampleReport({ id, keyDigest: id, reporter, createdAt: at.now }), true)
}
const lease = (at: At) =>
  Effect.map(
    at.deliveries.lease({ now: at.now, leaseUntil: at.now + 10_000 }),
    Option.match({
      onNone: () => "nothing",
      onSome: (leased) => {
        at.leases.unshift(leased)
        return `${leased.id}#${leased.fence}`
      }
    })
  )
/** By the holder of the newest lease, or of the one before it. */
const update = (of: (now: number) => DeliveryUpdate, index = 0) =>
  ((at) => {
    const held = at.leases[index]
    return held === undefined ? Effect.succeed("no lease") : at.deliveries.update(held, of(at.now))
  }) satisfies (at: At) => unknown
const { Delivered, Failed, Released, Sending, Unknown, Waiting } = DeliveryUpdate
const inAMinute = (now: number) => ({ availableAt: now + 60_000, failure })
const fail = (stopped: boolean, seconds: number) => (at: At) =>
  Effect.map(
    at.destinations.failed("tracker", {
      pausedUntil: at.now + seconds * 1_000,
      stopped,
      failure: stopped ? "401" : "429"
    }),
    ({ failures }) => failures
  )

const words: Readonly<Record<string, (at: At) => Effect.Effect<unknown, unknown>>> = {
  admit: admit(ana),
  anonymous: admit(Anonymous()),
  unverified: admit(Unverified()),
  lease,
  sending: update((at) => Sending({ at })),
  delivered: update((at) => Delivered({ at, issue, sweepAt: Option.none() })),
  swept: update((at) => Delivered({ at, issue, sweepAt: Option.some(at + 60_000) })),
  waiting: update((now) => Waiting(inAMinute(now))),
  unknown: update((now) => Unknown({ availableAt: now + 5_000, failure, searches: 2 })),
  failed: update((at) => Failed({ at, failure: "422" })),
  released: update((now) => Released(inAMinute(now))),
  lateWaiting: update((now) => Waiting(inAMinute(now)), 1),
  extend: ({ deliveries, leases: [held], now }) =>
    held === undefined ? Effect.succeed("no lease") : deliveries.extend(held, now + 10_000),
  retry: ({ deliveries, now }) => deliveries.retry("report:a", now),
  discard: ({ deliveries, now }) => deliveries.discard("report:a", now, "spam"),
  discardSweep: ({ deliveries, now }) => deliveries.discard("sweep:a", now, "spam"),
  remove: ({ now, queries }) => queries.removeReport("a", "request 12", now),
  removeReports: ({ now, retention }) => retention.reports(now),
  removeAnonymous: ({ now, retention }) => retention.anonymousReports(now),
  removeDeliveries: ({ now, retention }) => retention.deliveries(now),
  counts: ({ deliveries }) =>
    Effect.map(deliveries.counts, (all) =>
      all
        .map(({ count, kind, state }) => `${count} ${kind} ${state}`)
        .toSorted()
        .join("+")
    ),
  oldest: ({ deliveries }) => Effect.map(deliveries.oldestOpen, optional),
  issue: ({ reports }) =>
    Effect.map(reports.find("a"), (found) =>
      Option.match(
        Option.flatMap(found, (one) => one.issue),
        {
          onNone: () => "none",
          onSome: ({ number }) => number
        }
      )
    ),
  limit: fail(false, 60),
  limitShortly: fail(false, 10),
  stop: fail(true, 60),
  answered: ({ destinations }) =>
    Effect.map(destinations.answered("tracker", { wrote: false }), ({ failures }) => failures),
  wrote: ({ destinations }) =>
    Effect.map(destinations.answered("tracker", { wrote: true }), ({ failures }) => failures),
  resume: ({ destinations, now }) => destinations.resume(now),
  reserve: ({ destinations, now }) =>
    Effect.map(destinations.reserveWrite("tracker", { now, spacing: 1_000, hourly: 3 }), since),
  elsewhere: ({ destinations, now }) =>
    Effect.map(destinations.reserveWrite("tables", { now, spacing: 1_000, hourly: 3 }), since),
  state: ({ destinations }) =>
    Effect.map(
      destinations.find("tracker"),
      ({ failures, lastFailure, pausedUntil, stopped }) =>
        `${failures}${stopped ? " stopped" : ""} until ${Math.max(0, since(pausedUntil))} ${Option.getOrElse(lastFailure, () => "-")}`
    ),
  pauses: ({ destinations, now }) =>
    Effect.map(
      destinations.pauses(now),
      (all) =>
        all
          .map(({ lastFailure, name, reason, until }) =>
            [name, reason, since(until), ...Option.toArray(lastFailure)].join(" ")
          )
          .toSorted()
          .join("+") || "no pause"
    )
}

/** `+15` is 15 s later, `-15` a clock that goes back, `'` by the other process. Below it the answers, and the rows of deliveries. A report's delivery has the name of the report. */
const histories = `
# Unknown outcomes come first, then verified reporters, then the others, each in the order in which they fell due.
anonymous unverified admit+1 anonymous lease+1 failed lease failed lease failed lease counts oldest
  c#1, yes, a#1, yes, b#1, yes, d#1, 1 report leased+3 report failed, 1 | a failed 0/0 due 0 over 2 422 | b failed 0/0 due 0 over 2 422 | c failed 0/0 due 1 over 2 422 | d leased 0/0 due 1
anonymous lease sending unknown admit lease+5 failed lease
  a#1, yes, yes, a#2, yes, b#1 | a failed 1/2 due 5 sent 0 over 5 422 | b leased 0/0 due 0
admit admit+1 lease+5 waiting lease sending unknown lease+5 lease+60
  a#1, yes, b#1, yes, yes, b#2, b#3 | a waiting 0/0 due 66 502 | b leased 1/2 due 11 sent 6 502
# All processes together hold one at most, until its lease ends.
anonymous anonymous lease lease' lease counts lease+9' lease+1'
  a#1, nothing, nothing, 1 report leased+1 report waiting, nothing, a#2 | a leased 0/0 due 0 | b waiting 0/0 due 0
admit lease extend+9 lease+9' lease+1' extend lateWaiting
  a#1, yes, nothing, a#2, yes, no | a leased 0/0 due 0
# A holder whose lease ended changes nothing under the next one, and an outcome is given once.
admit lease+1 lease+10' lateWaiting waiting waiting extend
  a#1, a#2, no, yes, no, no | a waiting 0/0 due 71 502
# What was sent stays unknown until its outcome is certain. A holder that dies while it sends voids the searches, one that searches does not.
admit lease+1 sending lease+10'
  a#1, yes, a#2 | a leased 1/0 due 0 sent 1
admit lease sending unknown lease+5 sending lease+10'
  a#1, yes, yes, a#2, yes, a#3 | a leased 2/0 due 5 sent 5 502
admit lease sending unknown lease+5 lease+10'
  a#1, yes, yes, a#2, a#3 | a leased 1/2 due 5 sent 0 502
admit lease sending unknown lease+5 released lease+60
  a#1, yes, yes, a#2, yes, a#3 | a leased 1/2 due 65 sent 0 502
# A send that is written twice, because the answer to its commit was lost, counts once.
admit lease sending sending lease+10' sending
  a#1, yes, yes, a#2, yes | a leased 2/0 due 0 sent 10
# A refused attempt leaves what is known of an earlier one.
admit lease sending waiting lease+59 lease+1
  a#1, yes, yes, nothing, a#2 | a leased 1/0 due 60 502
admit lease sending unknown lease+5 sending waiting
  a#1, yes, yes, a#2, yes, yes | a waiting 2/2 due 65 sent 0 502
admit lease sending unknown lease+5 sending failed
  a#1, yes, yes, a#2, yes, yes | a failed 2/2 due 5 sent 0 over 5 422
# The issue is the report's, and a sweep follows when the report was sent more than once. A sweep is no open report.
admit lease+1 sending delivered issue oldest lease+100
  a#1, yes, yes, 7, -, nothing | a delivered 1/0 due 0 sent 1 over 1
admit lease sending swept issue counts oldest lease+60 delivered
  a#1, yes, yes, 7, 1 report delivered+1 sweep waiting, -, sweep:a#1, yes | a delivered 1/0 due 0 sent 0 over 0 | sweep:a delivered 0/0 due 60 over 60
admit lease sending failed issue counts oldest lease+100
  a#1, yes, yes, none, 1 report failed, -, nothing | a failed 1/0 due 0 over 0 422
# An operator's retry searches first unless nothing was ever sent.
anonymous admit retry lease
  yes, a#1 | a leased 0/0 due 0 | b waiting 0/0 due 0
admit lease sending waiting retry+1
  a#1, yes, yes, yes | a unknown 1/0 due 1 502
admit lease sending unknown retry+1
  a#1, yes, yes, yes | a unknown 1/0 due 1 sent 0 502
admit lease sending failed retry+1 oldest
  a#1, yes, yes, yes, 0 | a unknown 1/0 due 1 422
admit discard+1 counts discard retry+1
  yes, 1 report discarded, no, yes | a unknown 0/0 due 2 spam
admit lease sending retry discard remove delivered retry discard
  a#1, yes, no, no, being filed, yes, no, no | a delivered 1/0 due 0 sent 0 over 0
retry discard
  no, no
# It may also change one whose holder died, while no server takes it over; a holder that is only late writes nothing then.
admit lease sending retry+9 retry+1 waiting
  a#1, yes, no, yes, no | a unknown 1/0 due 10 sent 0
admit lease sending discard+9 discard+1 delivered issue removeReports+1
  a#1, yes, no, yes, no, none, 1
admit lease sending remove+9 remove+1 delivered issue
  a#1, yes, being filed, removed, no, none | a discarded 1/0 due 0 sent 0 over 10 its report was removed
# And one that waits for its turn under a lease: its holder sends nothing then. A search for duplicates may be closing one.
admit lease discard sending' extend released
  a#1, yes, no, no, no | a discarded 0/0 due 0 over 0 spam
admit lease remove sending' extend released
  a#1, removed, no, no, no | a discarded 0/0 due 0 over 0 its report was removed
admit admit lease retry sending' lease' extend lateWaiting
  a#1, yes, no, a#2, yes, no | a leased 0/0 due 0 | b waiting 0/0 due 0
admit lease sending waiting lease+60 discard
  a#1, yes, yes, a#2, yes | a discarded 1/0 due 60 over 60 spam
admit lease sending unknown lease+5 discard retry remove
  a#1, yes, yes, a#2, no, no, being filed | a leased 1/2 due 5 sent 0 502
admit lease sending swept lease+60 discardSweep
  a#1, yes, yes, sweep:a#1, no | a delivered 1/0 due 0 sent 0 over 0 | sweep:a leased 0/0 due 60
# A report is kept until its delivery is over, and the delivery of one that was not filed for as long as the report, neither more nor less.
admit removeReports+1 lease sending removeReports waiting removeReports
  0, a#1, yes, 0, yes, 0 | a waiting 1/0 due 61 502
admit lease sending removeReports+1 delivered removeReports removeDeliveries+1
  a#1, yes, 0, yes, 1, 1
admit lease failed removeDeliveries+1 removeAnonymous removeReports removeDeliveries
  a#1, yes, 0, 0, 1, 0
admit discard admit lease sending delivered removeReports+1
  yes, b#1, yes, yes, 2 | b delivered 1/0 due 0 sent 0 over 0
admit anonymous unverified discard removeAnonymous+1 lease failed lease removeAnonymous
  yes, 0, b#1, yes, c#1, 1 | a discarded 0/0 due 0 over 0 spam | c leased 0/0 due 0
admit lease swept lease+60 failed removeDeliveries+1
  a#1, yes, sweep:a#1, yes, 2
# A pause is never shortened. An answer ends the failures, but a stop ends with a write only.
limit limitShortly state pauses answered answered state pauses
  0, 1, 2 until 60 429, tracker failure 60 429, 2, 0, 0 until 60 -, tracker failure 60
stop limit pauses answered state wrote state
  0, 1, tracker settings 60 429, 2, 2 stopped until 60 429, 2, 0 until 60 -
# After a repair what waited for the tracker is due, and other pauses stay.
admit lease waiting stop resume state pauses lease
  a#1, yes, 0, 1 stopped until 0 -, no pause, a#2 | a leased 0/0 due 0 502
admit lease waiting limit resume state lease
  a#1, yes, 0, 1 until 60 429, nothing | a waiting 0/0 due 60 502
stop admit lease+30 waiting resume+31 state
  0, a#1, yes, 1 stopped until 60 - | a waiting 0/0 due 90 502
admit lease sending unknown stop resume
  a#1, yes, yes, 0 | a unknown 1/2 due 5 sent 0 502
# Writes are a second apart, and so many in an hour, of each destination.
reserve reserve' elsewhere+4 reserve pauses reserve pauses reserve+3600'
  0, 1, 4, 4, no pause, 3600, tracker pace 3600, 3604
reserve reserve reserve reserve pauses+3000 pauses+589 pauses+1
  0, 1, 2, 3600, tracker pace 3600, tracker pace 3600, no pause
# Nothing is paused or leased for more than an hour: later times are those of a clock that was ahead.
reserve+7200 pauses-7200 reserve reserve reserve reserve pauses
  7200, no pause, 0, 1, 2, 3600, tracker pace 3600
admit lease+7200 sending lease-3600' lease-3600' waiting
  a#1, yes, nothing, a#2, yes | a waiting 1/0 due 60 sent 7200 502
limit+7200 pauses-7200 limit pauses limit+3600 limitShortly-3600 pauses
  0, no pause, 1, tracker failure 60 429, 2, 3, tracker failure 3660 429
`

onBoth("Deliveries and destinations", ({ freshPath, openStore }) => {
  it.scoped("of two processes, whatever happened before", function* () {
    const path = yield* freshPath
    const stores = [yield* openStore(path), yield* openStore(path)] as const
    for (const [, history = "", ends] of histories.matchAll(/^(\w.*)\n {2}(.+)$/gm)) {
      let now = start
      const [ids, leases, given]: [Array<string>, Array<Delivery>, Array<string>] = [[], [], []]
      for (const word of history.split(" ")) {
        const [, name = "", wait = "0", other] = /^(\w+?)([+-]\d+)?(')?$/.exec(word) ?? []
        now += Number(wait) * 1_000
        const act = words[name] ?? (() => Effect.dieMessage(`no word ${word}`))
        const answer = yield* act({ ...stores[other === undefined ? 0 : 1], now, ids, leases })
        if (typeof answer === "boolean") given.push(answer ? "yes" : "no")
        else if (typeof answer !== "object" && answer !== undefined) given.push(String(answer))
      }
      const { items } = yield* stores[0].queries.deliveries({}, { limit: 100, after: Option.none() })
      const found = [given.join(", "), ...items.map(shown).toSorted()].join(" | ").replaceAll("report:", "")
      deepStrictEqual([history, found], [history, ends])
      const tables = ["reports", "report_sums", "deliveries", "destinations", "destination_writes"]
      yield* Effect.forEach(tables, (table) => stores[0].sql.unsafe(`DELETE FROM ${table}`))
    }
  })
})
