/** The operator's command line: arguments in, an exit code out. An error is one line on standard error, never a stack. */
import * as CliConfig from "@effect/cli/CliConfig"
import * as Command from "@effect/cli/Command"
import * as Descriptor from "@effect/cli/CommandDescriptor"
import * as Args from "@effect/cli/Args"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as ValidationError from "@effect/cli/ValidationError"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import { build, version } from "../schema/Release.ts"
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
import { telemetry } from "./commands/Telemetry.ts"
import { webhooks } from "./commands/Webhooks.ts"
import { type CommandTree, type Invocation, program, readArguments } from "./Arguments.ts"
import { CommandFailed, type Exit, exits, usage } from "./CommandFailed.ts"
import { CliEnvironment, FromFileOnly } from "./Environment.ts"
import { takeEnvironmentFile, withoutEnvironmentFile } from "./EnvironmentFile.ts"
import { toHelpText } from "./HelpText.ts"
import { colourise, Screen } from "./Screen.ts"
import { toSingleLine } from "./Text.ts"

const release = `${version} (build ${build})`

const showVersion = Command.make("version", {}, () => Effect.flatMap(Screen, ({ out }) => out(release))).pipe(
  Command.withDescription("Prints the version and the build")
)

/** Listed in the help; `readArguments` turns it into `<command> --help`. */
const help = Command.make("help", { command: Args.repeated(Args.text({ name: "command" })) }).pipe(
  Command.withDescription("Shows the help of a command, as --help after it does")
)

const commands = [
  serve,
  check,
  config,
  reports,
  deliveries,
  webhooks,
  recipients,
  telemetry,
  backup,
  restore,
  migrate,
  openapi,
  sandbox,
  showVersion,
  help
] as const

const tree: CommandTree = new Map(
  commands
    .map((one): Descriptor.Command<unknown> => one.descriptor)
    .flatMap((one) => [...Descriptor.getNames(one)].map((name) => [name, Descriptor.getSubcommands(one)]))
)

const root = Command.make(program).pipe(
  Command.withDescription("Runs, checks and operates the backend of the music companion"),
  Command.withSubcommands(commands)
)

const run = Command.run(root, {
  name: program,
  version: release,
  executable: program,
  footer: HelpDoc.sequence(
    HelpDoc.h1("EVERY COMMAND"),
    HelpDoc.p("--env-file <file> reads settings from a file; those of the environment count first")
  )
})

const colour = /\p{Cc}\[[0-9;]*m/gu

/**
 * Writes what the library and the sandbox print to the screen, in colours only where they are wanted. A console cannot fail: a
 * failed write fails the command at its end. The library's errors become one line below.
 */
const withPlainOutput = <E, R>(effect: Effect.Effect<void, E, R>) =>
  Effect.gen(function* () {
    const screen = yield* Screen
    let unwritten = Option.none<CommandFailed>()
    yield* Console.consoleWith((console) =>
      Effect.withConsole(effect, {
        ...console,
        log: (...parts) => {
          const text = parts.map(String).join(" ").trimEnd()
          return Effect.catchAll(screen.out(screen.colours ? text : text.replaceAll(colour, "")), (failed) =>
            Effect.sync(() => {
              unwritten = Option.some(failed)
            })
          )
        },
        error: () => Effect.void
      })
    )
    if (Option.isSome(unwritten)) return yield* unwritten.value
  })

const textOf = (doc: HelpDoc.HelpDoc): string => toSingleLine(HelpDoc.toAnsiText(doc).replaceAll(colour, ""))

const runLibrary = (args: ReadonlyArray<string>) =>
  run(["node", program, ...args]).pipe(
    Effect.provide([NodeContext.layer, CliConfig.layer({ isCaseSensitive: true, showBuiltIns: false })]),
    withPlainOutput,
    Effect.mapError((error) =>
      ValidationError.isValidationError(error) ? usage(textOf(error.error), `see ${program} --help`) : error
    )
  )

const showHelp = (path: ReadonlyArray<string>, to: "out" | "err") =>
  Effect.flatMap(Screen, (screen) =>
    Effect.provideService(runLibrary([...path, "--help"]), Screen, {
      ...screen,
      out: (text) => screen[to](toHelpText(text, path, screen.columns))
    })
  )

/** The help is the explanation of an incomplete command. */
const showIncomplete = (path: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    yield* showHelp(path, "err")
    return yield* new CommandFailed({ exit: exits.usage, lines: [] })
  })

const perform = ({ args, wanted }: Invocation) => {
  switch (wanted) {
    case "run":
      return runLibrary(args)
    case "help":
      return showHelp(args, "out")
    case "version":
      return runLibrary(["--version"])
    case "incomplete":
      return showIncomplete(args)
  }
}

const command = (given: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const { args, variables } = yield* takeEnvironmentFile(given)
    const environment = yield* CliEnvironment
    const added = Object.keys(variables).filter((name) => environment[name] === undefined)
    for (const name of added) environment[name] = variables[name]
    return yield* Effect.provideService(perform(yield* readArguments(tree, args)), FromFileOnly, added)
  })

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
  args: ReadonlyArray<string>,
  signal: string
): Effect.Effect<void, never, Screen> =>
  printErrors([
    `${program}: ${toSingleLine(withoutEnvironmentFile(args)[0] ?? "it")} was interrupted by ${signal}`
  ])

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
