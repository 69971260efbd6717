import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import type { Refusal } from "./Protocol.ts"

/** An action cannot be carried out. The person reads both sentences. */
export class Refused extends Data.TaggedError("Refused")<Refusal> {}

/** `hint` says what to do on the page. */
export const refuse = (message: string, hint: string): Effect.Effect<never, Refused> =>
  Effect.fail(new Refused({ message, hint }))
