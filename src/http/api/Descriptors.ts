import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Effect from "effect/Effect"
import { IamDescriptor, Version } from "../../schema/System.ts"
import { Descriptors } from "../../services/usecases/Descriptors.ts"
import { Calls } from "../middleware/Calls.ts"
import { PlaneSelection } from "../middleware/SentHeaders.ts"
import { admitted, failures } from "./Endpoint.ts"

export const iam = HttpApiEndpoint.get("iam", "/api/v1/iam")
  .addSuccess(IamDescriptor)
  .addError(failures(...admitted))
  .middleware(PlaneSelection)
  .annotate(OpenApi.Summary, "Parameters of a login")
  .annotate(
    OpenApi.Description,
    "The application, its identity and notification services, its ting types, and the scopes that a login requests. With `X-Testing-Environment-Key` it resolves the plane, so a client can verify a secret."
  )

export const version = HttpApiEndpoint.get("version", "/api/v1/version")
  .addSuccess(Version)
  .addError(failures(...admitted))
  .annotate(OpenApi.Summary, "Versions of the service and its API")
  .annotate(OpenApi.Description, "`min_cli` is the oldest client version that is supported.")

export class DescriptorsApi extends HttpApiGroup.make("descriptors")
  .add(iam)
  .add(version)
  .annotate(OpenApi.Title, "Descriptors")
  .annotate(OpenApi.Description, "Descriptors of the service") {}

export const DescriptorsLive = HttpApiBuilder.group(
  HttpApi.make("music").add(DescriptorsApi),
  "descriptors",
  (handlers) =>
    Effect.gen(function* () {
      const { inPlane, metered } = yield* Calls
      const descriptors = yield* Descriptors
      return handlers
        .handle("iam", () => inPlane(descriptors.iam))
        .handle("version", () => metered(() => descriptors.version))
    })
)
