import * as Effect from "effect/Effect"
import type { FailureCode } from "../../schema/Failure.ts"
import { OwnEvents } from "../../services/OwnEvents.ts"
import type { Exchange } from "./Exchange.ts"

/** How an exchange ended; 499 when the client left first. */
export interface Ending {
  readonly status: number
  readonly code: FailureCode | undefined
  /** Nanoseconds of Effect's clock. */
  readonly endedAt: bigint
}

/** Stands for every path that is none of ours: what was asked for is the caller's own text. */
const unmatched = "unmatched"

/** One structured line a request, and one of the backend's own events; never a query, a header or a body. */
export const accessLog = Effect.map(
  OwnEvents,
  (events) =>
    (exchange: Exchange, { status, code, endedAt }: Ending): Effect.Effect<void> => {
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
        plane: exchange.plane
      })
      const recorded = exchange.call?.recorded !== false && facts.method !== "OPTIONS" && !exchange.testing
      return recorded
        ? Effect.zipRight(
            line,
            events.record({
              kind: "request",
              fields: {
                ...facts,
                outcome: status < 400 ? "ok" : "error",
                error_code: code ?? null
              }
            })
          )
        : line
    }
)
