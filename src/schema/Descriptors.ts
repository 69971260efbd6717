import * as Schema from "effect/Schema"
import { EnvironmentId } from "./Identity.ts"

export const Version = Schema.Struct({
  version: Schema.String,
  api_versions: Schema.Array(Schema.Literal("v1")),
  min_cli: Schema.String.annotations({ description: "The oldest client version that is supported" })
}).annotations({ identifier: "Version" })
export type Version = typeof Version.Type

export const IamDescriptor = Schema.Struct({
  app_id: Schema.String,
  org_id: Schema.String.annotations({ description: "The organisation that owns the application" }),
  api_version: Schema.Literal("v1"),
  iam_url: Schema.String,
  ting_url: Schema.String,
  testing_environment_id: EnvironmentId,
  ting_types: Schema.Array(Schema.String),
  scopes: Schema.Array(Schema.String).annotations({ description: "Requested at login" }),
  version: Schema.String
}).annotations({ identifier: "IamDescriptor" })
export type IamDescriptor = typeof IamDescriptor.Type
