import { InvalidInput } from "../../schema/Failure.ts"

/** The request did not arrive whole in time. */
export const lateFailure = (): InvalidInput =>
  new InvalidInput({
    status: 408,
    message: "The request did not arrive in time.",
    hint: "Send the whole request without pauses, and retry with the same key."
  })
