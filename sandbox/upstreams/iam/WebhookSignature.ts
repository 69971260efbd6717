/** Signed webhook requests for production and testing planes (identity-service.md 11.1, 11.3, 11.4). */
import { createHmac } from "node:crypto"
import { appOf, webhookOf } from "./Apps.ts"
import { planeOf } from "./Environments.ts"
import { type Envelope, envelopeOf, type IamEvent } from "./Events.ts"
import { unixSeconds } from "./Identifiers.ts"
import type { Environment, PlaneId, State } from "./Model.ts"

export interface SignedWebhook {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

export interface SigningOptions {
  /** `true`: the testing envelope of older senders, without `environment_id` and `generation`. */
  readonly withoutEnvironment?: boolean
}

/** `v1=` + HMAC-SHA256 over the timestamp's text, a dot and the exact bytes. */
export const signWebhook = (secret: string, timestamp: string, body: Buffer): string =>
  `v1=${createHmac("sha256", secret).update(`${timestamp}.`).update(body).digest("hex")}`

const testingEnvelope = (environment: Environment, envelope: Envelope, withoutEnvironment: boolean) => {
  const { data, ...metadata } = envelope
  return {
    test: {
      testing_key: environment.rootKey,
      metadata: {
        ...(withoutEnvironment ? {} : { environment_id: environment.id, generation: 1 }),
        ...metadata
      },
      data
    }
  }
}

export const webhooks = (state: State) => ({
  /** One signed request. Throws when the plane has no application with a webhook. */
  buildWebhook: (planeId: PlaneId, event: IamEvent, options: SigningOptions = {}): SignedWebhook => {
    const { apps, environment } = planeOf(state, planeId)
    const app =
      event.appId === undefined
        ? [...apps.values()].find((candidate) => webhookOf(state, candidate) !== undefined)
        : appOf(state, planeId, event.appId)
    const webhook = app === undefined ? undefined : webhookOf(state, app)
    if (webhook === undefined) throw new Error(`no webhook is registered in ${planeId}`)
    const envelope = envelopeOf(state, event)
    const body = Buffer.from(
      JSON.stringify(
        environment === undefined
          ? envelope
          : testingEnvelope(environment, envelope, options.withoutEnvironment === true)
      )
    )
    const timestamp = String(unixSeconds(state.now()))
    return {
      url: webhook.url,
      body,
      headers: {
        "Content-Type": "application/json",
        "User-Agent": "silicon-iam/4.0.0",
        "X-Silicon-IAM-Event-ID": envelope.event_id,
        "X-Silicon-IAM-Timestamp": timestamp,
        "X-Silicon-IAM-Key-Version": String(webhook.keyVersion),
        "X-Silicon-IAM-Signature": signWebhook(webhook.secret, timestamp, body)
      }
    }
  }
})
