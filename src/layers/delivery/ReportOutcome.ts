/** Final outcomes of a report's delivery. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { DeliveryUpdate } from "../../services/Store.ts"
import type { Issue } from "../../services/Tracker.ts"
import type { LeasedDelivery } from "./Lease.ts"

/** Whether the report may have other issues than the one it names: the list shows some, the list may hide some, or it was sent once. */
export type Copies = "seen" | "possible" | "none"

export const copiesAfter = (sends: number): Copies => (sends > 1 ? "possible" : "none")

export const recordFiled = (
  { delivery, write }: LeasedDelivery,
  issue: Issue,
  copies: Copies,
  /** Milliseconds until the search for copies that the list may hide. */
  sweepDelay: number
): Effect.Effect<void> =>
  Effect.gen(function* () {
    const at = yield* Clock.currentTimeMillis
    const sweepAt = copies === "none" ? Option.none() : Option.some(copies === "seen" ? at : at + sweepDelay)
    if (yield* write(DeliveryUpdate.Delivered({ at, issue: Option.some(issue), sweepAt })))
      yield* Effect.logInfo("Report filed", { report: delivery.subject, issue: issue.number })
  })

/** Only an operator's retry continues from here. */
export const recordFailed = (
  { delivery, write }: LeasedDelivery,
  message: string,
  failure: string
): Effect.Effect<void> =>
  Effect.gen(function* () {
    yield* write(DeliveryUpdate.Failed({ at: yield* Clock.currentTimeMillis, failure }))
    yield* Effect.logError(message, { report: delivery.subject, failure })
  })
