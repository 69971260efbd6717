/** Signed webhook requests, for production and testing planes (identity-service.md 11.1, 11.3, 11.4). */
import { createHmac } from "node:crypto"
import { webhookOf } from "./Apps.ts"
import type { Envelope } from "./Events.ts"
import { unixSeconds } from "./Grammar.ts"
import type { App, Environment, Plane, State } from "./Model.ts"

export interface SignedWebhook {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

export interface SigningOptions {
  /** Unix seconds of the attempt; default now. */
  readonly timestamp?: number
  readonly secret?: string
  readonly keyVersion?: number
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
        ...(withoutEnvironment ? {} : { environment_id: environment.id, generation: environment.generation }),
        ...metadata
      },
      data
    }
  }
}

/** One attempt's request, or `undefined` when the application has no webhook. */
export const signedRequest = (
  state: State,
  plane: Plane,
  app: App,
  envelope: Envelope,
  options: SigningOptions = {}
): SignedWebhook | undefined => {
  const webhook = webhookOf(state, app)
  if (webhook === undefined) return undefined
  const { environment } = plane
  const body = Buffer.from(
    JSON.stringify(
      environment === undefined
        ? envelope
        : testingEnvelope(environment, envelope, options.withoutEnvironment === true)
    )
  )
  const timestamp = String(options.timestamp ?? unixSeconds(state.now()))
  return {
    url: webhook.url,
    body,
    headers: {
      "Content-Type": "application/json",
      "User-Agent": "silicon-iam/4.0.0",
      "X-Silicon-IAM-Event-ID": envelope.event_id,
      "X-Silicon-IAM-Timestamp": timestamp,
      "X-Silicon-IAM-Key-Version": String(options.keyVersion ?? webhook.keyVersion),
      "X-Silicon-IAM-Signature": signWebhook(options.secret ?? webhook.secret, timestamp, body)
    }
  }
}
