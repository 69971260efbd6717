/** A command that runs until a signal declares so at its start: the signal is then its normal end, no interruption. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

export class UntilSignal extends Context.Reference<UntilSignal>()("music/cli/UntilSignal", {
  defaultValue: (): Effect.Effect<void> => Effect.void
}) {}

export const untilSignal: Effect.Effect<void> = Effect.flatten(UntilSignal)
