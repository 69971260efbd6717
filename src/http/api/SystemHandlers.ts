import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as Effect from "effect/Effect"
import { version } from "../../schema/Release.ts"
import { Readiness } from "../../services/Readiness.ts"
import { Api } from "../Api.ts"

/** Liveness uses no dependency. */
const health = Effect.succeed({ status: "ok", service: "music-backend", version } as const)

export const SystemHandlers = HttpApiBuilder.group(Api, "system", (handlers) =>
  Effect.map(Readiness, (readiness) =>
    handlers.handle("healthz", () => health).handle("readyz", () => readiness.check)
  )
)
