import * as Schema from "effect/Schema"

export const Health = Schema.Struct({
  status: Schema.Literal("ok"),
  service: Schema.Literal("music-backend"),
  version: Schema.String
}).annotations({ identifier: "Health" })
export type Health = typeof Health.Type

export const CheckState = Schema.Literal("ok", "degraded", "failed", "off")
export type CheckState = typeof CheckState.Type
export const Checks = Schema.Record({ key: Schema.String, value: CheckState })
export type Checks = typeof Checks.Type

export const ReadinessAnswer = Schema.Struct({ status: Schema.Literal("ready"), checks: Checks }).annotations(
  {
    identifier: "Readiness"
  }
)
export type ReadinessAnswer = typeof ReadinessAnswer.Type
