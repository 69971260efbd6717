/** Crash points and how each is provoked. */
import type { DeliveryUpdate } from "../../src/services/Store.ts"
import type { Random } from "../world/Arbitraries.ts"
import type { StoreMethod } from "../world/TestStore.ts"
import type { Provocation } from "./Provocations.ts"

export interface Point {
  /** Passed to the process, and part of a failure's message. */
  readonly name: string
  readonly provocation: Provocation
}

type Named<Method extends StoreMethod> = Method
/** Methods of the store that only read, and writes of an operator and of schedules, each of which is one transaction. */
type Unkilled = Named<
  | "check"
  | "recipients.isActive"
  | "loginOutcomes.find"
  | `sessionDigests.${"find" | "forgetToken" | "forgetLogin"}`
  | "planes.findByKeyDigest"
  | `reports.${"find" | "knowsKey" | "storedBytes"}`
  | `spool.${"counts" | "newestDeliveredSince"}`
  | `deliveries.${"find" | "counts" | "oldestOpen" | "retry" | "discard"}`
  | `destinations.${"find" | "pauses" | "resume"}`
  | "iamCalls.leave"
  | "backups.last"
  | `usage.${"size" | "pool"}`
>
type Killed =
  | Exclude<StoreMethod, Unkilled | "deliveries.update">
  | `deliveries.update:${DeliveryUpdate["_tag"]}`

/** All other methods; `deliveries.update` once for each kind of update. One that is missing does not compile. */
const writes: Readonly<Record<Killed, Provocation>> = {
  "recipients.activate": "login",
  "recipients.deactivate": "revoked grant",
  "loginOutcomes.record": "login",
  "sessionDigests.remember": "login",
  "reports.admit": "report",
  "webhooks.receive": "webhook",
  "spool.offer": "telemetry",
  "spool.lease": "telemetry",
  "spool.settle": "telemetry",
  "spool.release": "tables down",
  "planes.remember": "new plane",
  "deliveries.lease": "report",
  "deliveries.extend": "slow tracker",
  "deliveries.update:Sending": "report",
  "deliveries.update:Delivered": "report",
  "deliveries.update:Waiting": "limited tracker",
  "deliveries.update:Unknown": "lost answer",
  "deliveries.update:Failed": "invalid report",
  "deliveries.update:Released": "failed search",
  "destinations.failed": "limited tracker",
  "destinations.answered": "limited tracker",
  "destinations.reserveWrite": "report",
  "iamCalls.take": "start"
}

/** Before the commit of the write, and after it before the caller gets the result. */
const moments = ["commit", "committed"] as const

const inTransactions = (method: string, provocation: Provocation): ReadonlyArray<Point> =>
  moments.map((moment) => ({ name: `${method} ${moment}`, provocation }))

/** Calls of upstreams that are not already enclosed by two writes of the store, as a filing and a shipment are. */
const aroundCalls: ReadonlyArray<Point> = ["before", "after"].flatMap(
  (moment): ReadonlyArray<Point> => [
    { name: `tracker.findByMarker ${moment}`, provocation: "lost answer" },
    { name: `tracker.closeDuplicate ${moment}`, provocation: "two issues" }
  ]
)

/** The upstream has executed the request and not answered yet. The parent kills the process, because only it can observe that. */
const executed: ReadonlyArray<Point> = (
  ["executed at IAM", "executed at Ting", "executed at the tracker", "executed at the tables"] as const
).map((provocation) => ({ name: provocation, provocation }))

/** These need an empty database. */
export const migrating: ReadonlyArray<Point> = inTransactions("store.migrate", "start")

export const running: ReadonlyArray<Point> = [
  ...Object.entries(writes).flatMap(([method, provocation]) => inTransactions(method, provocation)),
  ...aroundCalls,
  ...executed
]

/** Splits the points into a number of lists, in random order. */
export const splitRandomly = (
  points: ReadonlyArray<Point>,
  random: Random,
  hands: number
): ReadonlyArray<ReadonlyArray<Point>> => {
  const shuffled = random.shuffled(points)
  return Array.from({ length: hands }, (_, hand) =>
    shuffled.filter((_point, index) => index % hands === hand)
  )
}
