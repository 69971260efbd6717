import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import { IamDescriptor, Version } from "../../schema/Descriptors.ts"
import { admission, always, plane } from "./Failures.ts"
import { PlaneSelection } from "./Middleware.ts"

export const iam = HttpApiEndpoint.get("iam", "/api/v1/iam")
  .addSuccess(IamDescriptor)
  .addError(always)
  .addError(admission)
  .addError(plane)
  .middleware(PlaneSelection)
  .annotateContext(
    OpenApi.annotations({
      summary: "Parameters of a login",
      description:
        "The application, its identity and notification services, its ting types, and the scopes that a login requests. With `X-Testing-Environment-Key` it resolves the plane, so a client can verify a secret."
    })
  )

export const version = HttpApiEndpoint.get("version", "/api/v1/version")
  .addSuccess(Version)
  .addError(always)
  .addError(admission)
  .annotateContext(
    OpenApi.annotations({
      summary: "Versions of the service and its API",
      description: "`min_cli` is the oldest client version that is supported."
    })
  )

export class DescriptorsApi extends HttpApiGroup.make("descriptors")
  .add(iam)
  .add(version)
  .annotateContext(
    OpenApi.annotations({ title: "Descriptors", description: "Descriptors of the service" })
  ) {}
