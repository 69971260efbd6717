import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Effect from "effect/Effect"
import { CommandFailed, exits } from "../CommandFailed.ts"
import { untilSignal } from "../UntilSignal.ts"

const flags = {
  walk: Options.boolean("walk").pipe(
    Options.withDescription("runs the scenario, one line for each step, and exits with 0 or 1")
  ),
  debug: Options.boolean("debug").pipe(Options.withDescription("the server's log at debug level"))
}

export const sandbox = Command.make("sandbox", flags, (given) =>
  Effect.gen(function* () {
    if (!given.walk) yield* untilSignal
    // The only import of the simulators: the bundle of the server does not hold them.
    const { sandbox: start } = yield* Effect.promise(() => import("../../../sandbox/Program.ts"))
    const passed = yield* Effect.mapError(
      start(given),
      (error) =>
        new CommandFailed({
          exit: exits.unavailable,
          lines: [
            error._tag === "SystemError" || error._tag === "BadArgument" ? error.message : error.reason
          ],
          fix: "check that loopback and the temporary folder can be used"
        })
    )
    if (!passed) return yield* new CommandFailed({ exit: exits.no, lines: [] })
  })
).pipe(
  Command.withDescription("Runs the server on this machine with simulated upstreams, without configuration")
)
