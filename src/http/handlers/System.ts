import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { Descriptors } from "../../services/Descriptors.ts"
import { Api } from "../Api.ts"

export const SystemLive = HttpApiBuilder.group(Api, "system", (handlers) =>
  Effect.gen(function* () {
    const descriptors = yield* Descriptors
    return handlers.handle("healthz", () => descriptors.health).handle("readyz", () => descriptors.readiness)
  })
)
