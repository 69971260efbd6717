/** The code of a failure, for tests in which nothing else of it matters. */
import { Effect } from "effect"

export const codeOf = <A, E extends { readonly code: string }, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(effect), ({ code }) => code)
