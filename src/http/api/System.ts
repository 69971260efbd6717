import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Effect from "effect/Effect"
import { requestedScopes } from "../../schema/Identity.ts"
import { version } from "../../schema/Release.ts"
import { Health, IamDescriptor, ReadinessAnswer, Version } from "../../schema/System.ts"
import { environmentIdOf } from "../../services/Plane.ts"
import { Settings } from "../../services/Settings.ts"
import { Readiness } from "../../services/usecases/Readiness.ts"
import { Calls } from "../middleware/Calls.ts"
import { PlaneSelection } from "../middleware/SentHeaders.ts"
import { admitted, always, failures, Traits } from "./Endpoint.ts"

export const healthz = HttpApiEndpoint.get("healthz", "/healthz")
  .addSuccess(Health)
  .addError(failures(...always))
  .annotate(Traits, { probe: true })
  .annotate(OpenApi.Summary, "Liveness of the process")
  .annotate(OpenApi.Description, "Uses no dependency, and is answered while draining too.")

export const readyz = HttpApiEndpoint.get("readyz", "/readyz")
  .addSuccess(ReadinessAnswer)
  .addError(failures(...always, "not_ready"))
  .annotate(Traits, { probe: true })
  .annotate(OpenApi.Summary, "Readiness of the service")
  .annotate(
    OpenApi.Description,
    "Ready when the store answers, migrations are applied and the process is not draining. A slow store and a stopped tracker or table are `degraded` and do not make the service unready."
  )

export class SystemApi extends HttpApiGroup.make("system")
  .add(healthz)
  .add(readyz)
  .annotate(OpenApi.Title, "Health")
  .annotate(OpenApi.Description, "Liveness and readiness of the process") {}

const health = Effect.succeed({ status: "ok", service: "music-backend", version } as const)

export const SystemLive = HttpApiBuilder.group(HttpApi.make("music").add(SystemApi), "system", (handlers) =>
  Effect.map(Readiness, ({ check }) => handlers.handle("healthz", () => health).handle("readyz", () => check))
)

export const iam = HttpApiEndpoint.get("iam", "/api/v1/iam")
  .addSuccess(IamDescriptor)
  .addError(failures(...admitted))
  .middleware(PlaneSelection)
  .annotate(OpenApi.Summary, "Parameters of a login")
  .annotate(
    OpenApi.Description,
    "The application, its identity and notification services, its ting types, and the scopes that a login requests. With `X-Testing-Environment-Key` it resolves the plane, so a client can verify a secret."
  )

export const versions = HttpApiEndpoint.get("version", "/api/v1/version")
  .addSuccess(Version)
  .addError(failures(...admitted))
  .annotate(OpenApi.Summary, "Versions of the service and its API")
  .annotate(OpenApi.Description, "`min_cli` is the oldest client version that is supported.")

export class DescriptorsApi extends HttpApiGroup.make("descriptors")
  .add(iam)
  .add(versions)
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
              version
            })
          )
        )
        .handle("version", () =>
          metered(() => Effect.succeed({ version, api_versions: ["v1" as const], min_cli: minCli }))
        )
    })
)
