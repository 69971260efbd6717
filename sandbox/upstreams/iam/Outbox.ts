/** The webhook outbox: at least once, in order per aggregate, retried only when told to (identity-service.md 11.6). */
import { randomInt } from "node:crypto"
import { appOf, webhookOf } from "./Apps.ts"
import { planeOf } from "./Environments.ts"
import { type Envelope, envelopeOf, type IamEvent, receives } from "./Events.ts"
import { uuidAt } from "./Grammar.ts"
import type { App, Plane, PlaneId, State } from "./Model.ts"
import { defaultLimits, type PostLimits, type PostResult, post } from "./WebhookSender.ts"
import { type SignedWebhook, type SigningOptions, signedRequest } from "./WebhookSignature.ts"

const attemptsPerCycle = 20

export interface Delivery {
  readonly id: string
  readonly plane: PlaneId
  readonly appId: string
  readonly event: Envelope
  readonly attempts: Array<{ readonly at: number; readonly result: PostResult }>
  status: "pending" | "delivered" | "dead"
  /** Milliseconds; not tried before. */
  nextAttemptAt: number
  cycle: number
}

const retried = (result: PostResult): boolean =>
  "error" in result || [408, 425, 429].includes(result.status) || result.status >= 500

/** min(2^(attempt-1), 300) seconds, times 0.75 to 1.25; milliseconds. */
const backoff = (attempt: number): number => Math.min(2 ** (attempt - 1), 300) * (750 + randomInt(501))

const sameAggregate = (left: Delivery, right: Delivery): boolean =>
  left.plane === right.plane &&
  left.appId === right.appId &&
  left.event.aggregate.type === right.event.aggregate.type &&
  left.event.aggregate.id === right.event.aggregate.id

export const outbox = (state: State, limits: PostLimits = defaultLimits) => {
  const deliveries: Array<Delivery> = []
  let passes: Promise<unknown> = Promise.resolve()

  const attempt = async (delivery: Delivery): Promise<void> => {
    const plane = state.planes.get(delivery.plane)
    const app = plane?.apps.get(delivery.appId)
    const signed =
      plane === undefined || app === undefined ? undefined : signedRequest(state, plane, app, delivery.event)
    if (signed === undefined) {
      delivery.status = "dead"
      return
    }
    const at = state.now()
    const result = await post(signed, limits)
    delivery.attempts.push({ at, result })
    delivery.cycle += 1
    if ("status" in result && result.status >= 200 && result.status < 300) delivery.status = "delivered"
    else if (!retried(result) || delivery.cycle >= attemptsPerCycle) delivery.status = "dead"
    else delivery.nextAttemptAt = state.now() + backoff(delivery.cycle)
  }

  const blocked = (delivery: Delivery): boolean =>
    deliveries
      .slice(0, deliveries.indexOf(delivery))
      .some((older) => older.status === "pending" && sameAggregate(older, delivery))

  const pass = async (): Promise<ReadonlyArray<Delivery>> => {
    const tried: Array<Delivery> = []
    for (const delivery of deliveries) {
      if (delivery.status !== "pending" || state.now() < delivery.nextAttemptAt || blocked(delivery)) continue
      await attempt(delivery)
      tried.push(delivery)
    }
    return tried
  }

  const recipients = (plane: Plane, event: IamEvent, envelope: Envelope): ReadonlyArray<App> =>
    event.appId === undefined
      ? [...plane.apps.values()].filter(
          (app) =>
            app.status === "active" && webhookOf(state, app) !== undefined && receives(plane, app, envelope)
        )
      : [appOf(state, plane.id, event.appId)]

  return {
    /** Every delivery ever queued, oldest first. */
    deliveries,

    deadLetters: (): ReadonlyArray<Delivery> => deliveries.filter((delivery) => delivery.status === "dead"),

    /** One signed request, to send or to tamper with. Without `appId`: for the first application with a webhook. */
    buildWebhook: (planeId: PlaneId, event: IamEvent, options: SigningOptions = {}): SignedWebhook => {
      const plane = planeOf(state, planeId)
      const app =
        event.appId === undefined
          ? [...plane.apps.values()].find((candidate) => webhookOf(state, candidate) !== undefined)
          : appOf(state, planeId, event.appId)
      const signed =
        app === undefined ? undefined : signedRequest(state, plane, app, envelopeOf(state, event), options)
      if (signed === undefined) throw new Error(`no webhook is registered in ${planeId}`)
      return signed
    },

    /** Queues an event for its recipients; nothing is sent before `deliverDue`. */
    emit: (planeId: PlaneId, event: IamEvent): ReadonlyArray<Delivery> => {
      const plane = planeOf(state, planeId)
      const envelope = envelopeOf(state, event)
      const queued = recipients(plane, event, envelope).map(
        (app): Delivery => ({
          id: uuidAt(state.now()),
          plane: planeId,
          appId: app.appId,
          event: envelope,
          attempts: [],
          status: "pending",
          nextAttemptAt: state.now(),
          cycle: 0
        })
      )
      deliveries.push(...queued)
      return queued
    },

    /** Tries everything that is due now, in order, and returns what it tried. */
    deliverDue: (): Promise<ReadonlyArray<Delivery>> => {
      const result = passes.then(pass)
      passes = result
      return result
    },

    /** Starts a new cycle: same event id and payload, the current URL and secret. */
    replayDelivery: (delivery: Delivery): void => {
      delivery.status = "pending"
      delivery.cycle = 0
      delivery.nextAttemptAt = state.now()
    }
  }
}
