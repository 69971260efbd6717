/** A span for each statement, inside the span of its operation. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"

/** Begins the span of a statement; the result ends it. */
export type TraceStatement = (text: string) => () => void

export const untraced: TraceStatement = () => () => undefined

/** For the current span. */
export const traceStatements: Effect.Effect<TraceStatement> = Effect.map(
  Effect.all([Effect.tracer, Effect.option(Effect.currentSpan), Effect.clock]),
  ([tracer, parent, clock]) =>
    Option.match(parent, {
      onNone: () => untraced,
      onSome: (operation) => (text) => {
        const now = () => clock.unsafeCurrentTimeNanos()
        const span = tracer.span("sql.execute", Option.some(operation), Context.empty(), [], now(), "client")
        span.attribute("db.query.text", text)
        return () => span.end(now(), Exit.void)
      }
    })
)
