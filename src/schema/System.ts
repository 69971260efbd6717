/** What the service says about itself, and what it takes from the identity service. */
import * as Schema from "effect/Schema"
import { described, JsonObject } from "./Fields.ts"
import { EnvironmentId } from "./Identity.ts"

export const Health = Schema.Struct({
  status: Schema.Literal("ok"),
  service: Schema.Literal("music-backend"),
  version: Schema.String
}).annotations({ identifier: "Health" })

export const CheckState = Schema.Literal("ok", "degraded", "failed", "off")
export type CheckState = typeof CheckState.Type
export const Checks = Schema.Record({ key: Schema.String, value: CheckState })

export const ReadinessAnswer = Schema.Struct({
  status: Schema.Literal("ready"),
  checks: Checks
}).annotations({ identifier: "Readiness" })
export type ReadinessAnswer = typeof ReadinessAnswer.Type

export const Version = Schema.Struct({
  version: Schema.String,
  api_versions: Schema.Array(Schema.Literal("v1")),
  min_cli: described("The oldest client version that is supported")
}).annotations({ identifier: "Version" })

export const IamDescriptor = Schema.Struct({
  app_id: Schema.String,
  org_id: described("The organisation that owns the application"),
  api_version: Schema.Literal("v1"),
  iam_url: Schema.String,
  ting_url: Schema.String,
  testing_environment_id: EnvironmentId,
  ting_types: Schema.Array(Schema.String),
  scopes: Schema.Array(Schema.String).annotations({ description: "Requested at login" }),
  version: Schema.String
}).annotations({ identifier: "IamDescriptor" })

export const WebhookReceipt = Schema.Struct({ received: Schema.Literal(true) }).annotations({
  identifier: "WebhookReceipt"
})

/** Documented for readers of the OpenAPI page; verification works on the exact bytes (identity-service.md 11). */
export const WebhookDelivery = JsonObject.annotations({
  identifier: "WebhookDelivery",
  description: "IAM's event envelope, production or testing form"
})
