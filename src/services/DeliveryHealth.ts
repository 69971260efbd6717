import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"

/** State of the background deliveries for `/readyz`: `degraded` requires an operator, `off` is not configured. */
export class DeliveryHealth extends Context.Tag("music/DeliveryHealth")<
  DeliveryHealth,
  { readonly checks: Effect.Effect<Record<"tracker" | "tables", "ok" | "degraded" | "off">> }
>() {}
