/** Where a process is made to die, and what brings it there. A write of the store that is missing here fails a test. */
import type { DeliveryUpdate } from "../../src/services/Store.ts"
import type { Random } from "./Random.ts"

/** What a run does so that the place is reached; see Provocations.ts. */
export type Provocation =
  | "login"
  | "report"
  | "telemetry"
  | "webhook"
  | "start"
  | "revoked grant"
  | "new plane"
  | "slow tracker"
  | "limited tracker"
  | "lost answer"
  | "spoiled report"
  | "tables down"
  | "two issues"
  | "stop with a report"
  | "stop with telemetry"
  | "executed at IAM"
  | "executed at Ting"
  | "executed at the tracker"
  | "executed at the tables"
  | "retry by an operator"
  | "discard by an operator"
  | `call ${string}`

export interface Point {
  /** What the process is told, and what a failure prints. */
  readonly name: string
  readonly provocation: Provocation
}

/** Members of the store that change nothing. Everything else is a write. */
export const reads: ReadonlySet<string> = new Set([
  "recipients.isActive",
  "loginOutcomes.find",
  "reports.find",
  "reports.storedBytes",
  "spool.counts",
  "planes.findByKeyDigest",
  "deliveries.nextDueAt",
  "deliveries.find",
  "deliveries.counts",
  "deliveries.oldestOpen",
  "destinations.find"
])

const updates: Readonly<Record<DeliveryUpdate["_tag"], Provocation>> = {
  Sending: "report",
  Delivered: "report",
  Waiting: "limited tracker",
  Unknown: "lost answer",
  Failed: "spoiled report"
}

/** A method, with the update that it writes where that makes a difference. */
export const writes: Readonly<Record<string, Provocation>> = {
  "recipients.activate": "login",
  "recipients.deactivate": "revoked grant",
  "loginOutcomes.record": "login",
  "reports.admit": "report",
  "webhooks.receive": "webhook",
  "spool.offer": "telemetry",
  "spool.lease": "telemetry",
  "spool.settle": "telemetry",
  "spool.release": "tables down",
  // Both are done by one call, in transactions of their own.
  "spool.expire": "call spool.expire",
  "spool.forget": "call spool.expire",
  "planes.remember": "new plane",
  "deliveries.lease": "report",
  "deliveries.extend": "slow tracker",
  ...Object.fromEntries(
    Object.entries(updates).map(([update, provocation]) => [`deliveries.update:${update}`, provocation])
  ),
  "deliveries.retry": "retry by an operator",
  "deliveries.discard": "discard by an operator",
  "destinations.failed": "limited tracker",
  "destinations.answered": "report",
  "destinations.reserveWrite": "report",
  "retention.reports": "call retention.reports",
  "retention.webhooks": "call retention.webhooks",
  "retention.deliveries": "call retention.deliveries",
  "retention.recipients": "call retention.recipients",
  "retention.loginOutcomes": "call retention.loginOutcomes",
  "retention.refusals": "call retention.refusals"
}

/** Before the transaction begins, with everything written but the commit, and committed but untold. */
const moments = ["begin", "commit", "committed"] as const

const inTransactions = (method: string, provocation: Provocation): ReadonlyArray<Point> =>
  moments.map((moment) => ({ name: `${method} ${moment}`, provocation }))

/** Around calls that are no writes of the store beside them: a filing lies between two of those, and so does a shipment. */
const aroundCalls: ReadonlyArray<Point> = [
  { name: "tracker.findByMarker before", provocation: "lost answer" },
  { name: "tracker.findByMarker after", provocation: "lost answer" },
  { name: "tracker.closeDuplicate before", provocation: "two issues" },
  { name: "tracker.closeDuplicate after", provocation: "two issues" }
]

/** The upstream has done it and has not answered; the parent kills, for only it can see that. */
const executed: ReadonlyArray<Point> = (
  ["executed at IAM", "executed at Ting", "executed at the tracker", "executed at the tables"] as const
).map((provocation) => ({ name: provocation, provocation }))

const duringShutdown: ReadonlyArray<Point> = [
  ...inTransactions("deliveries.update:Unknown", "stop with a report"),
  ...inTransactions("spool.release", "stop with telemetry")
].map(({ name, provocation }) => ({ name: `${name} at shutdown`, provocation }))

/** They need a database that is still empty. */
export const migrating: ReadonlyArray<Point> = inTransactions("store.migrate", "start")

export const running: ReadonlyArray<Point> = [
  ...Object.entries(writes).flatMap(([method, provocation]) => inTransactions(method, provocation)),
  ...aroundCalls,
  ...executed,
  ...duringShutdown
]

/** So many lists, in an order of chance; points that follow each other differ with the seed. */
export const dealt = (
  points: ReadonlyArray<Point>,
  random: Random,
  hands: number
): ReadonlyArray<ReadonlyArray<Point>> => {
  const shuffled = random.shuffled(points)
  return Array.from({ length: hands }, (_, hand) =>
    shuffled.filter((_point, index) => index % hands === hand)
  )
}
