import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import * as OpenApi from "@effect/platform/OpenApi"
import * as Effect from "effect/Effect"
import { bodyLimits } from "../../schema/BodyLimits.ts"
import { TelemetryRequest } from "../../schema/Telemetry.ts"
import { Settings } from "../../services/Settings.ts"
import { Telemetry } from "../../services/usecases/Telemetry.ts"
import { Calls } from "../middleware/Calls.ts"
import { PlaneSelection } from "../middleware/SentHeaders.ts"
import { checkTelemetryOrigin } from "../middleware/WebOrigins.ts"
import { failures, Traits, withBody } from "./Endpoint.ts"

export const accept = HttpApiEndpoint.post("accept", "/api/v1/telemetry")
  .setPayload(TelemetryRequest)
  .addSuccess(HttpApiSchema.NoContent)
  .addError(failures(...withBody, "origin_not_allowed", "spool_full"))
  .middleware(PlaneSelection)
  .annotate(Traits, { bodyBound: bodyLimits.telemetry })
  .annotate(OpenApi.Summary, "Send a batch of client events")
  .annotate(
    OpenApi.Description,
    "204 means that the events are committed, or that nothing may be recorded: the caller opted out, telemetry is off, or the plane is a testing one. A full spool is 503: keep the events and send them again with the same ids."
  )

export class TelemetryApi extends HttpApiGroup.make("telemetry")
  .add(accept)
  .annotate(OpenApi.Title, "Telemetry")
  .annotate(OpenApi.Description, "Client telemetry") {}

export const TelemetryLive = HttpApiBuilder.group(
  HttpApi.make("music").add(TelemetryApi),
  "telemetry",
  (handlers) =>
    Effect.gen(function* () {
      const { inPlane } = yield* Calls
      const { webOrigins } = yield* Settings
      const telemetry = yield* Telemetry
      return handlers.handle("accept", ({ payload }) =>
        inPlane((plane, { message: { headers } }) =>
          Effect.zipRight(
            checkTelemetryOrigin(webOrigins, headers.origin, payload.table),
            telemetry.accept(plane, payload)
          )
        )
      )
    })
)
