import * as Schema from "effect/Schema"
import { about, described, JsonObject, mayBeAbsent, named, request, strictly, Text } from "./Fields.ts"
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
  type: about(Text(1, 255), "A type registered for this application, see `ting_types` of `GET /api/v1/iam`"),
  key: TingKey,
  data: about(JsonObject, "Any JSON object"),
  metadata: mayBeAbsent(JsonObject).annotations({ description: "Any JSON object" })
})
export type TingRequest = typeof TingRequest.Type

export const SentTing = named("Ting", {
  id: described("Starts with `msg_`"),
  created_at: described("RFC 3339, UTC"),
  key: Schema.String,
  silent: about(Schema.Boolean, "The recipient muted this type: stored, never pushed"),
  replayed: about(Schema.Boolean, "This key was accepted before; nothing new was sent")
})
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

export const Subscription = named("Subscription", {
  id: described("Starts with `sub_`"),
  app_id: Schema.String,
  for: PublicId,
  active: Schema.Boolean
})
export type Subscription = typeof Subscription.Type
