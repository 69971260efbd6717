/** The rules of deliveries and destinations in memory (services/store/Deliveries.ts and Destinations.ts). */
import * as Option from "effect/Option"
import type {
  Deliveries,
  Delivery,
  DeliveryKind,
  DeliveryUpdate,
  DestinationPause,
  Destinations,
  DestinationState,
  Reporter,
  StoredDelivery
} from "../../../../src/services/Store.ts"

export const hour = 3_600_000
export const day = 24 * hour
/** A write of the next seconds waits its turn, and is no pause. */
const ownTurn = 10_000

interface Row {
  readonly id: string
  readonly kind: DeliveryKind
  readonly subject: string
  readonly createdAt: number
  state: string
  leaseUntil: number | undefined
  hasPriority: boolean
  attempts: number
  availableAt: number
  sentAt: number | undefined
  searches: number
  lastFailure: string | undefined
  fence: number
  finishedAt: number | undefined
  discardedAt: number | undefined
}

interface ModelReport {
  readonly id: string
  readonly createdAt: number
  readonly bytes: number
  reporter: Reporter
  issue: number | undefined
}

type LeaseRequest = Parameters<Deliveries["lease"]>[0]
type Trouble = Parameters<Destinations["failed"]>[1]
type Pace = Parameters<Destinations["reserveWrite"]>[1]

const neverFailed: DestinationState = {
  failures: 0,
  stopped: false,
  pausedUntil: 0,
  lastFailure: Option.none()
}

const least = (times: ReadonlyArray<number>) =>
  times.length === 0 ? Option.none() : Option.some(Math.min(...times))

const stored = (row: Row, state = row.leaseUntil === undefined ? row.state : "leased"): StoredDelivery => ({
  id: row.id,
  kind: row.kind,
  subject: row.subject,
  state,
  attempts: row.attempts,
  availableAt: row.availableAt,
  sentAt: Option.fromNullable(row.sentAt),
  searches: row.searches,
  lastFailure: Option.fromNullable(row.lastFailure),
  fence: row.fence,
  createdAt: row.createdAt,
  finishedAt: Option.fromNullable(row.finishedAt),
  discardedAt: Option.fromNullable(row.discardedAt)
})

export class DeliveryModel {
  readonly reports = new Map<string, ModelReport>()
  readonly rows = new Map<string, Row>()
  readonly destinations = new Map<string, DestinationState>()
  readonly writes = new Map<string, ReadonlyArray<number>>()

  admit(report: ModelReport) {
    this.reports.set(report.id, report)
    this.enqueue("report", report.id, report.createdAt, report.createdAt, report.reporter._tag === "Verified")
  }

  private enqueue(
    kind: DeliveryKind,
    subject: string,
    createdAt: number,
    availableAt: number,
    hasPriority: boolean
  ) {
    const id = `${kind}:${subject}`
    if (this.rows.has(id)) return
    this.rows.set(id, {
      id,
      kind,
      subject,
      createdAt,
      state: "waiting",
      leaseUntil: undefined,
      hasPriority,
      attempts: 0,
      availableAt,
      sentAt: undefined,
      searches: 0,
      lastFailure: undefined,
      fence: 0,
      finishedAt: undefined,
      discardedAt: undefined
    })
  }

  /** Whether its delivery moved up. */
  replay(report: ModelReport, reporter: Reporter, hasQuota: boolean) {
    const row = this.rows.get(`report:${report.id}`)
    report.reporter = reporter
    if (!hasQuota || row === undefined || row.hasPriority || row.finishedAt !== undefined) return false
    row.hasPriority = true
    return true
  }

  private open() {
    return [...this.rows.values()].filter(({ finishedAt }) => finishedAt === undefined)
  }

  lease({ concurrency, count, leaseUntil, now }: LeaseRequest) {
    for (const row of this.open()) if ((row.leaseUntil ?? now + 1) <= now) row.leaseUntil = undefined
    const due = this.open().filter(({ leaseUntil }) => leaseUntil === undefined)
    const free = Math.min(count, concurrency - (this.open().length - due.length))
    const taken = due
      .filter(({ availableAt }) => availableAt <= now)
      .toSorted(
        (one, other) =>
          Number(one.state !== "unknown") - Number(other.state !== "unknown") ||
          Number(other.hasPriority) - Number(one.hasPriority) ||
          one.availableAt - other.availableAt ||
          (one.id < other.id ? -1 : 1)
      )
      .slice(0, Math.max(0, free))
    for (const row of taken) {
      row.leaseUntil = leaseUntil
      row.fence += 1
    }
    return taken.map((row) => stored(row, row.state))
  }

  private held({ fence, id }: Delivery) {
    const row = this.rows.get(id)
    return row?.fence === fence && row.leaseUntil !== undefined ? row : undefined
  }

  extend(delivery: Delivery, leaseUntil: number) {
    const row = this.held(delivery)
    if (row !== undefined) row.leaseUntil = leaseUntil
    return row !== undefined
  }

  update(delivery: Delivery, update: DeliveryUpdate) {
    const row = this.held(delivery)
    if (row === undefined) return false
    if (update._tag === "Sending") {
      Object.assign(row, { state: "unknown", sentAt: update.at, searches: 0, attempts: row.attempts + 1 })
      return true
    }
    row.leaseUntil = undefined
    if (update._tag !== "Released") row.state = update._tag.toLowerCase()
    if ("failure" in update) row.lastFailure = update.failure
    if ("availableAt" in update) row.availableAt = update.availableAt
    if ("at" in update) row.finishedAt = update.at
    if (update._tag === "Unknown") row.searches = update.searches
    if (update._tag === "Waiting" || update._tag === "Failed") {
      row.sentAt = Option.getOrUndefined(delivery.sentAt)
      row.searches = delivery.searches
    }
    if (update._tag !== "Delivered") return true
    const report = this.reports.get(row.subject)
    if (report !== undefined && Option.isSome(update.issue)) report.issue = update.issue.value.number
    if (Option.isSome(update.sweepAt))
      this.enqueue("sweep", row.subject, update.at, update.sweepAt.value, true)
    return true
  }

  private changeable(id: string) {
    const row = this.rows.get(id)
    return row !== undefined && row.leaseUntil === undefined && row.state !== "delivered" ? row : undefined
  }

  retry(id: string, now: number, onlyFailed: boolean) {
    const row = this.changeable(id)
    if (row === undefined) return false
    if (onlyFailed && (row.state !== "failed" || row.discardedAt !== undefined)) return false
    row.state = row.attempts > 0 || row.state !== "waiting" ? "unknown" : "waiting"
    row.hasPriority = true
    row.availableAt = now
    row.searches = 0
    row.finishedAt = undefined
    row.discardedAt = undefined
    return true
  }

  discard(id: string, now: number, reason: string) {
    const row = this.changeable(id)
    if (row === undefined || row.discardedAt !== undefined) return false
    row.state = "failed"
    row.finishedAt = now
    row.discardedAt = now
    row.lastFailure = reason
    return true
  }

  /** Never before its delivery is over, however old the report is. */
  removeReports(before: number, anonymous: boolean) {
    const removed = [...this.reports.values()].filter(
      ({ createdAt, id, reporter }) =>
        createdAt < before &&
        (!anonymous || reporter._tag !== "Verified") &&
        [...this.rows.values()].every(
          ({ state, subject }) => subject !== id || state === "delivered" || state === "failed"
        )
    )
    for (const { id } of removed) this.reports.delete(id)
    return removed.length
  }

  /** The delivery of an unfiled report is kept for as long as the report. */
  removeDeliveries(before: number) {
    const removed = [...this.rows.values()].filter(
      ({ finishedAt, kind, state, subject }) =>
        finishedAt !== undefined &&
        finishedAt < before &&
        (state === "delivered" || kind === "sweep" || !this.reports.has(subject))
    )
    for (const { id } of removed) this.rows.delete(id)
    return removed.length
  }

  find(id: string) {
    return Option.map(Option.fromNullable(this.rows.get(id)), (row) => stored(row))
  }

  list() {
    return [...this.rows.values()].map((row) => stored(row))
  }

  counts() {
    const counts = new Map<string, number>()
    for (const { discardedAt, kind, state } of this.list())
      if (Option.isNone(discardedAt))
        counts.set(`${kind} ${state}`, (counts.get(`${kind} ${state}`) ?? 0) + 1)
    return [...counts].toSorted().map(([name, count]) => {
      const [kind = "", state = ""] = name.split(" ")
      return { kind, state, count }
    })
  }

  oldestOpen() {
    const open = [...this.rows.values()].filter(
      ({ finishedAt, kind }) => kind === "report" && finishedAt === undefined
    )
    return least(open.map(({ createdAt }) => createdAt))
  }

  nextDueAt() {
    const ends = this.open().flatMap(({ leaseUntil = [] }) => leaseUntil)
    return least(ends.length > 0 ? ends : this.open().map(({ availableAt }) => availableAt))
  }

  destination(name: string) {
    return this.destinations.get(name) ?? neverFailed
  }

  failed(name: string, { failure, pausedUntil, stopped }: Trouble) {
    const before = this.destination(name)
    this.destinations.set(name, {
      failures: before.failures + 1,
      stopped: stopped || before.stopped,
      pausedUntil: Math.max(pausedUntil, before.pausedUntil),
      lastFailure: Option.some(failure)
    })
    return before
  }

  answered(name: string, wrote: boolean) {
    const before = this.destination(name)
    if (wrote || !before.stopped)
      if (before.failures > 0 || before.stopped)
        this.destinations.set(name, { ...neverFailed, pausedUntil: before.pausedUntil })
    return before
  }

  resume(now: number) {
    const tracker = this.destination("tracker")
    for (const [name, { pausedUntil, ...more }] of this.destinations)
      if (more.stopped)
        this.destinations.set(name, {
          ...more,
          pausedUntil: Math.min(pausedUntil, now),
          lastFailure: Option.none()
        })
    if (!tracker.stopped || tracker.pausedUntil <= now) return
    for (const row of this.rows.values())
      if (row.kind === "report" && row.state === "waiting") row.availableAt = Math.min(row.availableAt, now)
  }

  /** Newest first. */
  private writesAround(name: string, now: number) {
    return (this.writes.get(name) ?? []).filter((at) => at > now - hour).toSorted((one, other) => other - one)
  }

  reserveWrite(name: string, { hourly, now, spacing }: Pace) {
    const writes = this.writesAround(name, now)
    const at = Math.max(
      now,
      (writes[0] ?? Number.NEGATIVE_INFINITY) + spacing,
      (writes[hourly - 1] ?? Number.NEGATIVE_INFINITY) + hour
    )
    this.writes.set(name, [...writes, at])
    return at
  }

  pauses(now: number) {
    const failing = [...this.destinations].flatMap(([destination, { lastFailure, pausedUntil, stopped }]) =>
      pausedUntil > now
        ? [
            {
              name: destination,
              reason: stopped ? "settings" : "failure",
              until: pausedUntil,
              lastFailure
            } as const
          ]
        : []
    )
    const until = Math.max(0, ...this.writesAround("tracker", now))
    const paced = { name: "tracker", reason: "pace", until, lastFailure: Option.none<string>() } as const
    return [...failing, ...(until > now + ownTurn ? [paced] : [])].toSorted(byName)
  }
}

export const byName = (one: DestinationPause, other: DestinationPause) =>
  `${one.name} ${one.reason}` < `${other.name} ${other.reason}` ? -1 : 1
