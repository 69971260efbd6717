import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { Settings } from "../../services/Settings.ts"
import { Telemetry } from "../../services/Telemetry.ts"
import { Api } from "../Api.ts"
import { Calls } from "../middleware/Calls.ts"
import { makeWebOrigins } from "../middleware/WebOrigins.ts"

export const TelemetryHandlers = HttpApiBuilder.group(Api, "telemetry", (handlers) =>
  Effect.gen(function* () {
    const { inPlane } = yield* Calls
    const { webOrigins } = yield* Settings
    const telemetry = yield* Telemetry
    const origins = makeWebOrigins(webOrigins)
    return handlers.handle("accept", ({ headers: { origin }, payload }) =>
      inPlane((plane) =>
        Effect.gen(function* () {
          const refusal = origins.checkTelemetry(origin, payload.table)
          if (refusal !== undefined) return yield* refusal
          return yield* telemetry.accept(plane, payload)
        })
      )
    )
  })
)
