/** The operator's command line: arguments in, an exit code out. An error is one line on standard error, never a stack. */
import { readFileSync } from "node:fs"
import { parseEnv, stripVTControlCharacters } from "node:util"
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import type * as ValidationError from "@effect/cli/ValidationError"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import { expectSignal } from "../layers/process/Process.ts"
import type { BackupFailed } from "../layers/store/backup/Backup.ts"
import { build, version } from "../schema/Release.ts"
import { errorCode } from "../services/ErrorCode.ts"
import type { CursorInvalid } from "../services/store/Pages.ts"
import type { StoreUnavailable } from "../services/Store.ts"
import { backup, migrate, restore } from "./commands/Database.ts"
import { deliveries } from "./commands/Deliveries.ts"
import { recipients, telemetry, webhooks } from "./commands/Lists.ts"
import { reports } from "./commands/Reports.ts"
import { check, config } from "./commands/Settings.ts"
import { CommandFailed, type Exit, Host, misuse, toSingleLine } from "./Host.ts"
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
    const passed = yield* Effect.mapError(
      start(given),
      (error) =>
        new CommandFailed({
          exit: 69,
          lines: [
            error._tag === "SystemError" || error._tag === "BadArgument" ? error.message : error.reason
          ],
          fix: "check that loopback and the temporary folder can be used"
        })
    )
    if (!passed) return yield* new CommandFailed({ exit: 1, lines: [] })
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
      try: () => Object.assign(environment, parseEnv(readFileSync(file, "utf8")), { ...environment }),
      catch: (error) =>
        new CommandFailed({
          exit: 78,
          lines: [`the file of --env-file cannot be read: ${file} (${errorCode(error)})`],
          fix: "correct its path, which is relative to the working folder, or let this user read it"
        })
    })
  )

const root = Command.make(program, { envFile }, () => misuse("a command is missing")).pipe(
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

const parseAndRun = Command.run(root, { name: program, version: release, executable: program })

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

type Failure =
  | ValidationError.ValidationError
  | CommandFailed
  | CursorInvalid
  | StoreUnavailable
  | BackupFailed

/** The one place where the failures of commands get their exit codes. */
const toCommandFailed = (failure: Failure): CommandFailed => {
  const failed = (exit: Exit, line: string, fix: string) => new CommandFailed({ exit, lines: [line], fix })
  switch (failure._tag) {
    case "CommandFailed":
      return failure
    case "StoreUnavailable":
      return failed(69, failure.summary, failure.fix)
    case "BackupFailed":
      return failed(69, failure.reason, failure.fix)
    case "CursorInvalid":
      return failed(64, "the cursor of --after does not belong to this list", "use that of the previous page")
    default:
      return failed(64, stripVTControlCharacters(HelpDoc.toAnsiText(failure.error)), `see ${program} --help`)
  }
}

const toSentence = (text: string): string =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`

const linesOf = ({ fix, lines }: CommandFailed): ReadonlyArray<string> =>
  lines.map((line, index) => {
    const advised = fix !== undefined && index === lines.length - 1
    return `${program}: ${toSingleLine(line)}${advised ? `. ${toSentence(toSingleLine(fix))}` : ""}`
  })

/** Runs one command to its end. */
export const runCommand = (args: ReadonlyArray<string>): Effect.Effect<Exit, never, Host> =>
  Effect.flatMap(Host, ({ err }) =>
    // The library's dialogue waits for a person.
    (args.includes("--wizard")
      ? misuse("--wizard is not an option")
      : withHostConsole(parseAndRun(["node", program, ...args]))
    ).pipe(
      Effect.as(0 as const),
      Effect.catchAll((failure) => {
        const failed = toCommandFailed(failure)
        return Effect.as(Effect.forEach(linesOf(failed), err), failed.exit)
      }),
      Effect.catchAllDefect((defect) =>
        Effect.as(err(`${program}: internal error: ${toSingleLine(String(defect))}`), 70 as const)
      ),
      Effect.provide(NodeContext.layer),
      // Upstream clients and the store log for the server; a command reports its findings itself.
      Effect.provide(Logger.remove(Logger.defaultLogger))
    )
  )
