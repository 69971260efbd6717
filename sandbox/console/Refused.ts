import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type { Refusal } from "./Protocol.ts"

/** An action cannot be carried out. The person reads both sentences. */
export class Refused extends Data.TaggedError("Refused")<Refusal> {}

/** A control of a simulator throws for a name that it does not know; its sentence says which. */
export const orRefuse = <A>(hint: string, run: () => A): Effect.Effect<A, Refused> =>
  Effect.try({
    try: run,
    catch: (error) => new Refused({ message: error instanceof Error ? error.message : String(error), hint })
  })
