/** Commands that run a server. */
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { expectSignal } from "../../layers/process/RunMain.ts"
import { CommandFailed } from "../Host.ts"
import { flag } from "../Options.ts"

export const serve = Command.make("serve", {}, () =>
  Effect.flatMap(
    Effect.promise(() => import("../../ServerProcess.ts")),
    (server) => server.serve
  )
).pipe(Command.withDescription("Runs the server until SIGTERM, as npm start does"))

const flags = {
  walk: flag("walk", "runs the scenario, one line for each step, and exits with 0 or 1"),
  debug: flag("debug", "the server's log at debug level"),
  port: Options.integer("port").pipe(
    Options.withDescription("the server's port; the console and the upstreams have the next five"),
    Options.filterMap(
      Option.liftPredicate((port) => port >= 0 && port <= 65_530),
      "--port must be from 0 to 65530"
    ),
    Options.withDefault(8787)
  )
}

export const sandbox = Command.make("sandbox", flags, (given) =>
  Effect.gen(function* () {
    if (!given.walk) yield* expectSignal
    // The only import of the simulators: the bundle of the server does not hold them.
    const { sandbox: start } = yield* Effect.promise(() => import("../../../sandbox/Program.ts"))
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
