/** What the service says about itself, and what it takes from the identity service. */
import * as Schema from "effect/Schema"
import { about, described, JsonObject, named } from "./Fields.ts"
import { EnvironmentId } from "./Identity.ts"

export const Health = named("Health", {
  status: Schema.Literal("ok"),
  service: Schema.Literal("music-backend"),
  version: Schema.String
})

export const CheckState = Schema.Literal("ok", "degraded", "failed", "off")
export type CheckState = typeof CheckState.Type
export const Checks = Schema.Record({ key: Schema.String, value: CheckState })

export const ReadinessAnswer = named("Readiness", { status: Schema.Literal("ready"), checks: Checks })
export type ReadinessAnswer = typeof ReadinessAnswer.Type

export const Version = named("Version", {
  version: Schema.String,
  api_versions: Schema.Array(Schema.Literal("v1")),
  min_cli: described("The oldest client version that is supported")
})

export const IamDescriptor = named("IamDescriptor", {
  app_id: Schema.String,
  org_id: described("The organisation that owns the application"),
  api_version: Schema.Literal("v1"),
  iam_url: Schema.String,
  ting_url: Schema.String,
  testing_environment_id: EnvironmentId,
  ting_types: Schema.Array(Schema.String),
  scopes: about(Schema.Array(Schema.String), "Requested at login"),
  version: Schema.String
})

export const WebhookReceipt = named("WebhookReceipt", { received: Schema.Literal(true) })

/** Documented for readers of the OpenAPI page; verification works on the exact bytes (identity-service.md 11). */
export const WebhookDelivery = JsonObject.annotations({
  identifier: "WebhookDelivery",
  description: "IAM's event envelope, production or testing form"
})
