/** The code of a failure, for tests in which nothing else of it matters. */
import * as Effect from "effect/Effect"

export const codeOf = <A, E extends { readonly code: string }, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(effect), ({ code }) => code)

/** `what`, or the code of the failure. */
export const outcomeOf = <A, E extends { readonly code: string }, R>(
  what: string,
  effect: Effect.Effect<A, E, R>
) => Effect.match(effect, { onSuccess: () => what, onFailure: ({ code }) => code })
