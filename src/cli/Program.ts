/** The operator's command line: arguments in, an exit code out. An error is one line on standard error, never a stack. */
import { readFileSync } from "node:fs"
import { parseEnv, stripVTControlCharacters } from "node:util"
import * as Command from "@effect/cli/Command"
import * as CommandDescriptor from "@effect/cli/CommandDescriptor"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import type * as ValidationError from "@effect/cli/ValidationError"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as HashMap from "effect/HashMap"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Str from "effect/String"
import { expectSignal } from "../layers/process/Process.ts"
import { build, version } from "../schema/Release.ts"
import { errorCode } from "../services/ErrorCode.ts"
import type { CursorInvalid } from "../services/store/Pages.ts"
import type { StoreUnavailable } from "../services/Store.ts"
import { backup, migrate, restore } from "./commands/Database.ts"
import { deliveries } from "./commands/Deliveries.ts"
import { recipients, telemetry, webhooks } from "./commands/Lists.ts"
import { reports } from "./commands/Reports.ts"
import { check, config } from "./commands/Settings.ts"
import { CommandFailed, type Exit, failed, Host, incomplete, misuse, toSingleLine } from "./Host.ts"
import { count, flag, optionalText } from "./Options.ts"

const program = "music-backend"
const release = `${version} (build ${build})`

const serve = Command.make("serve", {}, () =>
  Effect.flatMap(
    Effect.promise(() => import("../ServerProcess.ts")),
    (server) => server.serve
  )
).pipe(Command.withDescription("Runs the server until SIGTERM, as npm start does"))

const flags = {
  walk: flag("walk", "runs the scenario, one line for each step, and exits with 0 or 1"),
  debug: flag("debug", "the server's log at debug level"),
  port: count("port", 0, 65_530, "the server's port; the console and the upstreams have the next five").pipe(
    Options.withDefault(8787)
  )
}

const sandbox = Command.make("sandbox", flags, (given) =>
  Effect.gen(function* () {
    if (!given.walk) yield* expectSignal
    // The only import of the simulators: the bundle of the server does not hold them.
    const { sandbox: start } = yield* Effect.promise(() => import("../../sandbox/Program.ts"))
    const passed = yield* Effect.mapError(start(given), (error) =>
      failed(
        69,
        error._tag === "SystemError" || error._tag === "BadArgument" ? error.message : error.reason,
        "check that loopback and the temporary folder can be used"
      )
    )
    if (!passed) return yield* new CommandFailed({ exit: 1 })
  })
).pipe(
  Command.withDescription("Runs the server on this machine with simulated upstreams, without configuration")
)

const showVersion = Command.make("version", {}, () => Effect.flatMap(Host, ({ out }) => out(release))).pipe(
  Command.withDescription("Prints the version and the build")
)

const envFile = optionalText("env-file", "file", "settings from a file; those of the environment count first")

/** Adds the variables of the file to the environment, whose own count first. */
const loadEnvFile = (file: string) =>
  Effect.flatMap(Host, ({ environment }) =>
    Effect.try({
      // A byte order mark would be a part of the first name, and the command would go on without that setting.
      try: () => {
        const given = parseEnv(readFileSync(file, "utf8").replace(/^\uFEFF/, ""))
        return Object.assign(environment, given, { ...environment })
      },
      catch: (error) =>
        failed(
          78,
          `the file of --env-file cannot be read: ${file} (${errorCode(error)})`,
          "correct its path, which is relative to the working folder, or let this user read it"
        )
    })
  )

const root = Command.make(program, { envFile }, () => incomplete).pipe(
  Command.withDescription("Runs, checks and operates the backend of the music companion"),
  Command.withSubcommands([
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
    sandbox,
    showVersion
  ]),
  Command.transformHandler((command, given) =>
    Effect.zipRight(Option.match(given.envFile, { onNone: () => Effect.void, onSome: loadEnvFile }), command)
  )
)

const run = Command.run(root, { name: program, version: release, executable: program })

/** What the library and the sandbox print goes to the screen, without colours. The library's errors become one line below. */
const withHostConsole = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Host, ({ out }) =>
    Console.consoleWith((console) =>
      Effect.withConsole(effect, {
        ...console,
        // A console cannot fail: the failure becomes a defect, and a failure again below.
        log: (...parts) => Effect.orDie(out(stripVTControlCharacters(parts.map(String).join(" ")).trimEnd())),
        error: () => Effect.void
      })
    )
  ).pipe(
    Effect.catchSomeDefect((defect) =>
      defect instanceof CommandFailed ? Option.some(Effect.fail(defect)) : Option.none()
    )
  )

type Failure = ValidationError.ValidationError | CommandFailed | CursorInvalid | StoreUnavailable

const nouns: Readonly<Record<string, { readonly descriptor: CommandDescriptor.Command<unknown> }>> = {
  ...{ reports, deliveries, webhooks, recipients, telemetry }
}

/** The one place where the failures of commands get their exit codes. */
const toCommandFailed = (failure: Failure, [first = ""]: ReadonlyArray<string>): CommandFailed => {
  const noun = Object.hasOwn(nouns, first) ? first : ""
  const place = `${program} ${noun}`.trim()
  switch (failure._tag) {
    case "CommandFailed":
      return failure
    case "StoreUnavailable":
      return failed(69, failure.summary, failure.fix)
    case "CursorInvalid":
      return failed(64, "the cursor of --after does not belong to this list", "use that of the previous page")
    case "CommandMismatch": {
      // The library names the commands of the program also where one of a noun is wrong.
      const { descriptor } = nouns[noun] ?? root
      const names = [...HashMap.keys(CommandDescriptor.getSubcommands<unknown>(descriptor))].sort().join(", ")
      return failed(64, `the commands are ${names}, with their options after them`, `see ${place} --help`)
    }
    default:
      return failed(64, stripVTControlCharacters(HelpDoc.toAnsiText(failure.error)), `see ${place} --help`)
  }
}

const toLine = ({ fix, problem }: NonNullable<CommandFailed["reason"]>): string =>
  `${program}: ${toSingleLine(problem)}. ${Str.capitalize(toSingleLine(fix))}${fix.endsWith(".") ? "" : "."}`

/** Runs one command to its end. */
export const runCommand = (given: ReadonlyArray<string>): Effect.Effect<Exit, never, Host> => {
  const words = given[0]?.startsWith("--env-file") ? given.slice(given[0] === "--env-file" ? 2 : 1) : given
  // The library does not find it after an option of the program.
  const args = words.some((word) => word === "--help" || word === "-h") ? words : given
  // The library's dialogue waits for a person.
  const ran = args.includes("--wizard") ? misuse("--wizard is no option") : run(["node", program, ...args])
  return Effect.flatMap(Host, ({ err }) =>
    withHostConsole(ran).pipe(
      Effect.as(0 as const),
      Effect.catchAll((failure) => {
        const { exit, reason } = toCommandFailed(failure, words)
        return Effect.as(reason === undefined ? Effect.void : err(toLine(reason)), exit)
      }),
      Effect.catchAllDefect((defect) =>
        Effect.as(err(`${program}: internal error: ${toSingleLine(String(defect))}`), 70 as const)
      ),
      Effect.provide(NodeContext.layer),
      // Upstream clients and the store log for the server; a command reports its findings itself.
      Effect.provide(Logger.remove(Logger.defaultLogger))
    )
  )
}
