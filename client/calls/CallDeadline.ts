/** The deadline of one call: the caller's, or the client's. */
import * as Effect from "effect/Effect"
import { type Deadline, deadlineIn } from "./Deadline.ts"
import type { OptionsProblem } from "../failures/Failures.ts"
import { type CallOptions, deadlineMillisecondsOf, type MusicClientOptions } from "../Options.ts"
import { findDeadlineProblem } from "../OptionsCheck.ts"

/** The deadline of a call; a time that is none is refused. */
export type DeadlineOf = (
  call: Pick<CallOptions, "deadlineMilliseconds"> | undefined
) => Effect.Effect<Deadline, OptionsProblem>

export const callDeadline = (options: MusicClientOptions): DeadlineOf => {
  const usual = deadlineMillisecondsOf(options)
  return (call) => {
    const milliseconds = call?.deadlineMilliseconds ?? usual
    const problem = findDeadlineProblem(milliseconds)
    return problem === undefined ? deadlineIn(milliseconds) : Effect.fail(problem)
  }
}
