import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import { Health, ReadinessAnswer } from "../../schema/Health.ts"
import { Probe } from "./EndpointAnnotations.ts"
import { always, failures } from "./Failures.ts"

export const healthz = HttpApiEndpoint.get("healthz", "/healthz")
  .addSuccess(Health)
  .addError(always)
  .annotate(Probe, true)
  .annotateContext(
    OpenApi.annotations({
      summary: "Liveness of the process",
      description: "Uses no dependency, and is answered while draining too."
    })
  )

export const readyz = HttpApiEndpoint.get("readyz", "/readyz")
  .addSuccess(ReadinessAnswer)
  .addError(always)
  .addError(failures("not_ready"))
  .annotate(Probe, true)
  .annotateContext(
    OpenApi.annotations({
      summary: "Readiness of the service",
      description:
        "Ready when the store answers, migrations are applied and the process is not draining. A slow store and a stopped tracker or table are `degraded` and do not make the service unready."
    })
  )

export class SystemApi extends HttpApiGroup.make("system")
  .add(healthz)
  .add(readyz)
  .annotateContext(
    OpenApi.annotations({ title: "Health", description: "Liveness and readiness of the process" })
  ) {}
