import { type Failure, InvalidInput } from "../../schema/Failure.ts"

/** Of its own, though the code is `invalid_input` (docs/api.md, "Errors"). */
export const lateStatus = 408

const made = new WeakSet<Failure>()

/** The request did not arrive whole in time. */
export const lateFailure = (): InvalidInput => {
  const failure = new InvalidInput({
    message: "The request did not arrive in time.",
    hint: "Send the whole request without pauses, and retry with the same key."
  })
  made.add(failure)
  return failure
}

export const isLate = (failure: Failure): boolean => made.has(failure)
