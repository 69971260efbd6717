import * as Schema from "effect/Schema"

export const WebhookReceipt = Schema.Struct({ received: Schema.Literal(true) }).annotations({
  identifier: "WebhookReceipt"
})
export type WebhookReceipt = typeof WebhookReceipt.Type

/** Documented for readers of the OpenAPI page; verification works on the exact bytes (identity-service.md 11). */
export const WebhookDelivery = Schema.Record({ key: Schema.String, value: Schema.Unknown }).annotations({
  identifier: "WebhookDelivery",
  description: "IAM's event envelope, production or testing form"
})
