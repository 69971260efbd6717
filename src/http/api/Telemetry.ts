import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import * as OpenApi from "@effect/platform/OpenApi"
import { TelemetryRequest } from "../../schema/Telemetry.ts"
import { bodyLimits } from "../../schema/BodyLimits.ts"
import { BodyBound } from "./EndpointAnnotations.ts"
import { admission, always, body, failures, plane } from "./Failures.ts"
import { OriginHeaders } from "./DocumentedHeaders.ts"
import { PlaneSelection } from "./Middleware.ts"

export const accept = HttpApiEndpoint.post("accept", "/api/v1/telemetry")
  .setHeaders(OriginHeaders)
  .setPayload(TelemetryRequest)
  .addSuccess(HttpApiSchema.NoContent.annotations({ description: "Committed, or recording is off" }))
  .addError(always)
  .addError(admission)
  .addError(body)
  .addError(plane)
  .addError(failures("origin_not_allowed", "spool_full"))
  .middleware(PlaneSelection)
  .annotate(BodyBound, bodyLimits.telemetry)
  .annotateContext(
    OpenApi.annotations({
      summary: "Send a batch of client events",
      description:
        "204 means that the events are committed, or that nothing may be recorded: the caller opted out, telemetry is off, or the plane is a testing one. A full spool is 503: keep the events and send them again with the same ids."
    })
  )

export class TelemetryApi extends HttpApiGroup.make("telemetry")
  .add(accept)
  .annotateContext(OpenApi.annotations({ title: "Telemetry", description: "Client telemetry" })) {}
