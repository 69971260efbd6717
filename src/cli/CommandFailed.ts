/** How a command ends badly: one line that says what happened and what to do, and the exit code of sysexits. */
import * as Data from "effect/Data"

/** 1: a check failed, or what was asked for is not there; 64: used wrongly; 69: database or network; 70: a defect; 78: settings. */
export const exits = { ok: 0, no: 1, usage: 64, unavailable: 69, defect: 70, settings: 78 } as const
export type Exit = (typeof exits)[keyof typeof exits]

export class CommandFailed extends Data.TaggedError("CommandFailed")<{
  readonly exit: Exit
  /** What happened, a line each; none when the output has said it already. */
  readonly lines: ReadonlyArray<string>
  /** What to do about it, as an instruction without a full stop. */
  readonly fix?: string
}> {}

export const notFound = (line: string, fix: string): CommandFailed =>
  new CommandFailed({ exit: exits.no, lines: [line], fix })

export const usage = (line: string, fix: string): CommandFailed =>
  new CommandFailed({ exit: exits.usage, lines: [line], fix })
