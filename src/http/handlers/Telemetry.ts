import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { Telemetry } from "../../services/Telemetry.ts"
import { Api } from "../Api.ts"
import { accept } from "../api/Telemetry.ts"
import { RequestGuard } from "./RequestGuard.ts"

export const TelemetryLive = HttpApiBuilder.group(Api, "telemetry", (handlers) =>
  Effect.gen(function* () {
    const telemetry = yield* Telemetry
    const { inPlane } = yield* RequestGuard
    return handlers.handle("accept", ({ payload, headers }) =>
      inPlane(accept, (plane) =>
        telemetry.accept(plane, { request: payload, origin: Option.fromNullable(headers.origin) })
      )
    )
  })
)
