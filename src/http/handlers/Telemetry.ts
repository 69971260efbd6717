import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { Settings } from "../../services/Settings.ts"
import { Telemetry } from "../../services/Telemetry.ts"
import { Api } from "../Api.ts"
import { accept } from "../api/Telemetry.ts"
import { makeWebOrigins } from "../middleware/WebOrigins.ts"
import { RequestGuard } from "../middleware/RequestGuard.ts"

export const TelemetryLive = HttpApiBuilder.group(Api, "telemetry", (handlers) =>
  Effect.gen(function* () {
    const { webOrigins } = yield* Settings
    const telemetry = yield* Telemetry
    const { serveInPlane } = yield* RequestGuard
    const cors = makeWebOrigins(webOrigins)
    return handlers.handleRaw(
      "accept",
      serveInPlane(accept, (plane, request, { headers }) => {
        const failure = cors.checkTelemetry(headers.origin, request.table)
        return failure === undefined ? telemetry.accept(plane, request) : Effect.fail(failure)
      })
    )
  })
)
