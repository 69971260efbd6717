import * as Effect from "effect/Effect"
import { Settings } from "../../services/Settings.ts"
import { Telemetry } from "../../services/Telemetry.ts"
import { accept } from "../api/Telemetry.ts"
import { makeWebOrigins } from "../middleware/WebOrigins.ts"
import { handle } from "./Handler.ts"

export const telemetryHandlers = Effect.gen(function* () {
  const { webOrigins } = yield* Settings
  const telemetry = yield* Telemetry
  const origins = makeWebOrigins(webOrigins)
  return {
    accept: handle(accept, ({ message, payload, plane }) => {
      const failure = origins.checkTelemetry(message.headers.origin, payload.table)
      return failure === undefined ? telemetry.accept(plane, payload) : Effect.fail(failure)
    })
  }
})
