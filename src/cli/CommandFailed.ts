/** The failure of a command: lines for standard error, and an exit code of sysexits. */
import * as Data from "effect/Data"

/**
 * 1: a check failed, or the requested record does not exist; 64: usage; 69: database or network; 70: a defect; 74: standard
 * output cannot be written; 78: settings; 141: the reader closed the pipe, as for a program that SIGPIPE ends.
 */
export const exits = {
  ok: 0,
  no: 1,
  usage: 64,
  unavailable: 69,
  defect: 70,
  output: 74,
  settings: 78,
  closedPipe: 141
} as const
export type Exit = (typeof exits)[keyof typeof exits]

export class CommandFailed extends Data.TaggedError("CommandFailed")<{
  readonly exit: Exit
  /** One line for each problem; empty when the output already shows them. */
  readonly lines: ReadonlyArray<string>
  /** The next step: an instruction without a full stop. */
  readonly fix?: string
}> {}

export const notFound = (line: string, fix: string): CommandFailed =>
  new CommandFailed({ exit: exits.no, lines: [line], fix })

export const usage = (line: string, fix: string): CommandFailed =>
  new CommandFailed({ exit: exits.usage, lines: [line], fix })
