import * as Schema from "effect/Schema"
import { described, JsonObject, mayBeAbsent, request, strictly, Text } from "./Fields.ts"
import { PublicId } from "./Identity.ts"

/** Largest outgoing ting, bytes of the exact UTF-8 body (notification-service.md 3.2). */
export const tingBodyLimit = 262_144

const keyLimit = 200
// U+0000-001F and U+007F-009F (notification-service.md 3.2).
const controlCharacters = /\p{Cc}/u

const TingKey = Schema.String.pipe(
  Schema.filter(
    (key) =>
      (key !== "" && Buffer.byteLength(key) <= keyLimit && !controlCharacters.test(key)) ||
      `must be 1 to ${keyLimit} bytes of UTF-8 without control characters`
  )
).annotations({
  jsonSchema: { minLength: 1, maxLength: keyLimit },
  description: "1 to 200 UTF-8 bytes, no control characters, starts with `<your public id>/`"
})

export const TingRequest = request("TingRequest", {
  type: Text(1, 255).annotations({
    description: "A type registered for this application, see `ting_types` of `GET /api/v1/iam`"
  }),
  key: TingKey,
  data: JsonObject.annotations({ description: "Any JSON object" }),
  metadata: mayBeAbsent(JsonObject).annotations({ description: "Any JSON object" })
})
export type TingRequest = typeof TingRequest.Type

export const SentTing = Schema.Struct({
  id: described("Starts with `msg_`"),
  created_at: described("RFC 3339, UTC"),
  key: Schema.String,
  silent: Schema.Boolean.annotations({ description: "The recipient muted this type: stored, never pushed" }),
  replayed: Schema.Boolean.annotations({ description: "This key was accepted before; nothing new was sent" })
}).annotations({ identifier: "Ting" })
export type SentTing = typeof SentTing.Type

/** Exactly `{}`. A struct without fields would accept any fields. */
export const SubscriptionRequest = Schema.Record({
  key: Schema.String,
  value: Schema.Never.annotations({ message: () => "is unexpected" })
}).annotations({
  ...strictly,
  identifier: "SubscriptionRequest",
  jsonSchema: { type: "object", properties: {}, required: [], additionalProperties: false }
})

export const Subscription = Schema.Struct({
  id: described("Starts with `sub_`"),
  app_id: Schema.String,
  for: PublicId,
  active: Schema.Boolean
}).annotations({ identifier: "Subscription" })
export type Subscription = typeof Subscription.Type
