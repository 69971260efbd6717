/** The operator's command line: arguments in, an exit code out. What goes wrong is one line on standard error, never a stack. */
import * as CliConfig from "@effect/cli/CliConfig"
import * as Command from "@effect/cli/Command"
import { isValidationError } from "@effect/cli/ValidationError"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import { version } from "../schema/Release.ts"
import { completionScript, isShell, shells } from "./Completions.ts"
import { backup, restore } from "./commands/Backup.ts"
import { check } from "./commands/Check.ts"
import { config } from "./commands/Config.ts"
import { deliveries, deliveryCommands } from "./commands/Deliveries.ts"
import { migrate } from "./commands/Migrate.ts"
import { openapi } from "./commands/OpenApi.ts"
import { recipientCommands, recipients } from "./commands/Recipients.ts"
import { reportCommands, reports } from "./commands/Reports.ts"
import { sandbox } from "./commands/Sandbox.ts"
import { serve } from "./commands/Serve.ts"
import { webhookCommands, webhooks } from "./commands/Webhooks.ts"
import { type CommandFailed, type Exit, exits, usage } from "./CommandFailed.ts"
import { branch, errorText, named, optionValue, renderHelp, wantsHelp } from "./Help.ts"
import { coloured, Screen } from "./Screen.ts"
import type { CliEnvironment } from "./Environment.ts"
import { oneLine } from "./Text.ts"

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

const tree = branch(root, [
  branch(serve),
  branch(check),
  branch(config),
  branch(reports, reportCommands),
  branch(deliveries, deliveryCommands),
  branch(webhooks, webhookCommands),
  branch(recipients, recipientCommands),
  branch(backup),
  branch(restore),
  branch(migrate),
  branch(openapi),
  branch(sandbox)
])

const run = Command.run(root, { name: program, version, executable: program })

const colour = /\p{Cc}\[[0-9;]*m/gu

/** The library's own output in colours only where they are wanted; its errors are told below, on one line. */
const quietly = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R | Screen> =>
  Effect.flatMap(Screen, (screen) =>
    Console.consoleWith((console) =>
      Effect.withConsole(effect, {
        ...console,
        log: (...parts) => {
          const text = parts.map(String).join(" ")
          return screen.out(screen.colours ? text : text.replaceAll(colour, ""))
        },
        error: () => Effect.void
      })
    )
  )

const completions = (shell: string): Effect.Effect<void, CommandFailed, Screen> =>
  Effect.gen(function* () {
    if (!isShell(shell))
      return yield* usage(
        `--completions ${shell} is no shell that is known`,
        `use one of ${shells.join(", ")}`
      )
    yield* (yield* Screen).out(yield* completionScript(root.descriptor, program, shell))
  })

const command = (args: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const screen = yield* Screen
    if (args[0] === "--version") return yield* screen.out(version)
    const shell = optionValue(args, "--completions")
    if (Option.isSome(shell)) return yield* completions(shell.value)
    const target = named(tree, args)
    const path = target.path.join(" ")
    if (target.stranger !== undefined)
      return yield* usage(
        `${path} has no command ${oneLine(target.stranger)}`,
        `use one of ${target.branch.children.map(({ name }) => name).join(", ")}`
      )
    const asksQuestions = args.includes("--wizard")
    if (wantsHelp(args) || (target.branch.children.length > 0 && !asksQuestions))
      return yield* screen.out(renderHelp(screen, target))
    yield* run(["node", program, ...args]).pipe(
      Effect.provide([NodeContext.layer, CliConfig.layer({ isCaseSensitive: true, showBuiltIns: false })]),
      quietly,
      Effect.mapError((error) =>
        isValidationError(error) ? usage(oneLine(errorText(error.error)), `see ${path} --help`) : error
      )
    )
  })

/** A command stands as it is, to be copied. */
const sentence = (text: string): string =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${text.endsWith(".") || text.startsWith("Run: ") ? "" : "."}`

const linesOf = ({ fix, lines }: CommandFailed): ReadonlyArray<string> =>
  lines.map((line, index) => {
    const advised = fix !== undefined && index === lines.length - 1
    return `${program}: ${oneLine(line)}${advised ? `. ${sentence(oneLine(fix))}` : ""}`
  })

/** Clears what was shown as progress, and says what is wrong. */
const complain = (lines: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const screen = yield* Screen
    yield* screen.progress("")
    for (const line of lines) yield* screen.say(coloured(screen, "red", line))
  })

/** For a command that was cut short. */
export const sayInterrupted = (
  args: ReadonlyArray<string>,
  signal: string
): Effect.Effect<void, never, Screen> => {
  const [, ...path] = named(tree, args).path
  return complain([`${program}: ${path.join(" ") || "it"} was interrupted by ${signal} before its end`])
}

/** Runs one command to its end. */
export const runCommand = (
  args: ReadonlyArray<string>
): Effect.Effect<Exit, never, Screen | CliEnvironment> =>
  command(args).pipe(
    Effect.as(exits.ok),
    Effect.catchAll((failed) => Effect.as(complain(linesOf(failed)), failed.exit)),
    Effect.catchAllDefect((defect) =>
      Effect.flatMap(Screen, ({ say }) =>
        Effect.as(say(`${program}: a mistake of this program: ${oneLine(String(defect))}`), exits.defect)
      )
    ),
    // What upstreams and the store log is for the server's log; a command says what it found itself.
    Effect.provide(Logger.remove(Logger.defaultLogger))
  )
