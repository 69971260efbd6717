import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"

/** How what is delivered in the background fares, for `/readyz`: `degraded` means that an operator must act, `off` that it is not configured. */
export class DeliveryHealth extends Context.Tag("music/DeliveryHealth")<
  DeliveryHealth,
  { readonly checks: Effect.Effect<Record<"tracker" | "tables", "ok" | "degraded" | "off">> }
>() {}
