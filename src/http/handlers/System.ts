import * as Effect from "effect/Effect"
import { version } from "../../schema/Release.ts"
import { Readiness } from "../../services/Readiness.ts"
import { healthz, readyz } from "../api/System.ts"
import { handle } from "./Handler.ts"

/** Liveness uses no dependency. */
const health = Effect.succeed({ status: "ok", service: "music-backend", version } as const)

export const systemHandlers = Effect.map(Readiness, (readiness) => ({
  healthz: handle(healthz, () => health),
  readyz: handle(readyz, () => readiness.check)
}))
