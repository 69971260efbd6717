import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Effect from "effect/Effect"
import { Health, ReadinessAnswer } from "../../schema/System.ts"
import { version } from "../../schema/Release.ts"
import { Readiness } from "../../services/usecases/Readiness.ts"
import { always, failures, Traits } from "./Endpoint.ts"

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
