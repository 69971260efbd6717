import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Effect from "effect/Effect"
import { requestedScopes } from "../../schema/Identity.ts"
import { version as release } from "../../schema/Release.ts"
import { IamDescriptor, Version } from "../../schema/System.ts"
import { environmentIdOf } from "../../services/Plane.ts"
import { Settings } from "../../services/Settings.ts"
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
      const { iam: settings, minCli, organisation, ting } = yield* Settings
      return handlers
        .handle("iam", () =>
          inPlane((plane) =>
            Effect.succeed({
              app_id: settings.applicationId,
              org_id: organisation,
              api_version: "v1" as const,
              iam_url: settings.url,
              ting_url: ting.url,
              testing_environment_id: environmentIdOf(plane),
              ting_types: ting.types,
              scopes: requestedScopes,
              version: release
            })
          )
        )
        .handle("version", () =>
          metered(() => Effect.succeed({ version: release, api_versions: ["v1" as const], min_cli: minCli }))
        )
    })
)
