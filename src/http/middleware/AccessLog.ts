import * as Effect from "effect/Effect"
import type { FailureCode } from "../../schema/Failure.ts"
import * as Metrics from "../../services/Metrics.ts"
import { BackendTelemetry } from "../../services/BackendTelemetry.ts"
import type { Ending, RequestState } from "./RequestState.ts"
import { endSpan, methodOf } from "./RequestTrace.ts"

/** Stands for every path that is none of ours: what was asked for is the caller's own text. */
const unmatched = "unmatched"

const count = (route: string, method: string, { code, status }: Pick<Ending, "code" | "status">): void => {
  Metrics.recordNow(Metrics.httpRequests({ route, method, status: String(status) }), 1)
  if (code !== undefined) Metrics.recordNow(Metrics.failures({ code }), 1)
}

/** The line of what never became a request. */
export const unparsed = (facts: {
  readonly status: number
  readonly code: FailureCode
  readonly request_id: string
}): Effect.Effect<void> =>
  Effect.suspend(() => {
    count("unparsed", methodOf(undefined), facts)
    return Effect.logInfo("Request", { method: "", route: "unparsed", ...facts })
  })

/**
 * What is told of a request when it is over: one structured line, its metrics, the end of its span, and one of the
 * backend's own events. Never a query, a header or a body.
 */
export const accessLog = Effect.map(
  BackendTelemetry,
  (events) =>
    (exchange: RequestState, ending: Ending): Effect.Effect<void> => {
      const { status, code, endedAt } = ending
      const facts = {
        method: exchange.message.method ?? "",
        route: exchange.route?.pattern ?? unmatched,
        status,
        duration_ms: Math.round(Number(endedAt - exchange.startedAt) / 10_000) / 100
      }
      const line = Effect.logInfo("Request", {
        ...facts,
        ...(code === undefined ? {} : { code }),
        source: exchange.info.source,
        plane: exchange.plane,
        actor: exchange.actor
      })
      const told = Effect.suspend(() => {
        const { route } = facts
        const method = methodOf(exchange.message.method)
        count(route, method, ending)
        Metrics.recordNow(Metrics.httpRequestDuration({ route, method }), facts.duration_ms / 1_000)
        endSpan(exchange, ending)
        return line
      })
      const recorded = exchange.call?.recorded !== false && facts.method !== "OPTIONS" && !exchange.testing
      return recorded
        ? Effect.zipRight(
            told,
            events.record({
              kind: "request",
              fields: {
                ...facts,
                outcome: status < 400 ? "ok" : "error",
                error_code: code ?? null
              }
            })
          )
        : told
    }
)
