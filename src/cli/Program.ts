/** The operator's command line: arguments in, an exit code out. An error is one line on standard error, never a stack. */
import * as CliConfig from "@effect/cli/CliConfig"
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as ValidationError from "@effect/cli/ValidationError"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import { version } from "../schema/Release.ts"
import { backup, restore } from "./commands/Backup.ts"
import { check } from "./commands/Check.ts"
import { config } from "./commands/Config.ts"
import { deliveries } from "./commands/Deliveries.ts"
import { migrate } from "./commands/Migrate.ts"
import { openapi } from "./commands/OpenApi.ts"
import { recipients } from "./commands/Recipients.ts"
import { reports } from "./commands/Reports.ts"
import { sandbox } from "./commands/Sandbox.ts"
import { serve } from "./commands/Serve.ts"
import { webhooks } from "./commands/Webhooks.ts"
import { type CommandFailed, type Exit, exits, usage } from "./CommandFailed.ts"
import { colourise, Screen } from "./Screen.ts"
import type { CliEnvironment } from "./Environment.ts"
import { toSingleLine } from "./Text.ts"

const program = "music-backend"

const root = Command.make(program).pipe(
  Command.withDescription("Runs, checks and operates the backend of the music companion"),
  Command.withSubcommands([
    serve,
    check,
    config,
    reports,
    deliveries,
    webhooks,
    recipients,
    backup,
    restore,
    migrate,
    openapi,
    sandbox
  ])
)

const run = Command.run(root, { name: program, version, executable: program })

const colour = /\p{Cc}\[[0-9;]*m/gu

/** Writes the library's output to the screen, in colours only where they are wanted. Its errors become one line below. */
const withPlainOutput = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R | Screen> =>
  Effect.flatMap(Screen, (screen) =>
    Console.consoleWith((console) =>
      Effect.withConsole(effect, {
        ...console,
        log: (...parts) => {
          const text = parts.map(String).join(" ").trimEnd()
          return screen.out(screen.colours ? text : text.replaceAll(colour, ""))
        },
        error: () => Effect.void
      })
    )
  )

const textOf = (doc: HelpDoc.HelpDoc): string => toSingleLine(HelpDoc.toAnsiText(doc).replaceAll(colour, ""))

const usageError = (error: ValidationError.ValidationError, args: ReadonlyArray<string>): CommandFailed =>
  usage(
    // The library's own text lists the commands of the top, also for a group.
    ValidationError.isCommandMismatch(error)
      ? `unknown command: ${toSingleLine(args.join(" "))}`
      : textOf(error.error),
    `see ${program} --help`
  )

const command = (args: ReadonlyArray<string>) =>
  run(["node", program, ...args]).pipe(
    Effect.provide([NodeContext.layer, CliConfig.layer({ isCaseSensitive: true, showBuiltIns: false })]),
    withPlainOutput,
    Effect.mapError((error) => (ValidationError.isValidationError(error) ? usageError(error, args) : error))
  )

/** A fix that is a command to run gets no full stop, so that it can be copied. */
const toSentence = (text: string): string =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${text.endsWith(".") || text.startsWith("Run: ") ? "" : "."}`

const linesOf = ({ fix, lines }: CommandFailed): ReadonlyArray<string> =>
  lines.map((line, index) => {
    const advised = fix !== undefined && index === lines.length - 1
    return `${program}: ${toSingleLine(line)}${advised ? `. ${toSentence(toSingleLine(fix))}` : ""}`
  })

/** Clears the progress and writes errors. */
const printErrors = (lines: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const screen = yield* Screen
    yield* screen.progress("")
    for (const line of lines) yield* screen.err(colourise(screen, "red", line))
  })

/** Reports a command that a signal ended. */
export const reportInterruption = (
  [command = "it"]: ReadonlyArray<string>,
  signal: string
): Effect.Effect<void, never, Screen> =>
  printErrors([`${program}: ${toSingleLine(command)} was interrupted by ${signal}`])

/** Runs one command to its end. */
export const runCommand = (
  args: ReadonlyArray<string>
): Effect.Effect<Exit, never, Screen | CliEnvironment> =>
  command(args).pipe(
    Effect.as(exits.ok),
    Effect.catchAll((failed) => Effect.as(printErrors(linesOf(failed)), failed.exit)),
    Effect.catchAllDefect((defect) =>
      Effect.flatMap(Screen, ({ err }) =>
        Effect.as(err(`${program}: internal error: ${toSingleLine(String(defect))}`), exits.defect)
      )
    ),
    // Upstream clients and the store log for the server; a command reports its findings itself.
    Effect.provide(Logger.remove(Logger.defaultLogger))
  )
