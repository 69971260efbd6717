/** What plain code needs of the fiber that runs it. Read directly, because each read through an effect is a step of its own. */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import type * as Fiber from "effect/Fiber"
import { unsafeMonotonicMillis } from "./MonotonicTime.ts"
import { RequestContext, type RequestInfo } from "./RequestContext.ts"

type AnyFiber = Fiber.RuntimeFiber<unknown, unknown>

export const clockOf = (fiber: AnyFiber): Clock.Clock =>
  Context.get(fiber.currentDefaultServices, Clock.Clock)

/** Monotonic milliseconds (`MonotonicTime`) by the fiber's clock. */
export const monotonicNow = (fiber: AnyFiber): number => unsafeMonotonicMillis(clockOf(fiber))

/** The current request, or the default outside of requests. */
export const requestOf = (fiber: AnyFiber): RequestInfo => Context.get(fiber.currentContext, RequestContext)
