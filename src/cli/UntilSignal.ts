/** Declared at the start of a command that runs until a signal: the signal then counts as its normal end. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

export class UntilSignal extends Context.Reference<UntilSignal>()("music/cli/UntilSignal", {
  defaultValue: (): Effect.Effect<void> => Effect.void
}) {}

export const untilSignal: Effect.Effect<void> = Effect.flatten(UntilSignal)
