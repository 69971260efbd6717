/** What a command has of its process, and how it fails. Results go to standard output; hints and errors to standard error. */
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as ValidationError from "@effect/cli/ValidationError"
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"

/**
 * 1: a check failed, or the requested record does not exist; 64: usage; 69: database or network; 70: a defect; 74: standard
 * output cannot be written; 78: settings; 141: the reader closed the pipe, as for a program that SIGPIPE ends.
 */
export type Exit = 0 | 1 | 64 | 69 | 70 | 74 | 78 | 141

export class CommandFailed extends Data.TaggedError("CommandFailed")<{
  readonly exit: Exit
  /** One line for each problem; empty when the output already shows them. */
  readonly lines: ReadonlyArray<string>
  /** The next step: an instruction without a full stop. */
  readonly fix?: string
}> {}

/** The record does not exist or cannot be changed. */
export const refuse = (line: string, fix: string): CommandFailed =>
  new CommandFailed({ exit: 1, lines: [line], fix })

/** A mistake in the arguments that the library does not see; it becomes exit code 64 as the library's own do. */
export const misuse = (line: string): Effect.Effect<never, ValidationError.ValidationError> =>
  Effect.fail(ValidationError.invalidValue(HelpDoc.p(line)))

export class Host extends Context.Tag("music/cli/Host")<
  Host,
  {
    /** The variables of the process. `--env-file` adds to them, so that `serve` and the database drivers see the same. */
    readonly environment: Record<string, string | undefined>
    /** Writes lines to standard output, and waits until its reader or file has taken them. */
    readonly out: (text: string) => Effect.Effect<void, CommandFailed>
    /** Writes lines to standard error; a failure is ignored. */
    readonly err: (text: string) => Effect.Effect<void>
  }
>() {}
