import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import { untilSignal } from "../UntilSignal.ts"

export const serve = Command.make("serve", {}, () =>
  Effect.zipRight(
    untilSignal,
    Effect.flatMap(
      Effect.promise(() => import("../../ServerProcess.ts")),
      (module) => module.serve
    )
  )
).pipe(Command.withDescription("Runs the server until SIGTERM, as npm start does"))
