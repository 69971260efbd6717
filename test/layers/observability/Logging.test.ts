import { expect } from "vitest"
import { it } from "../../world/Test.ts"
import { Effect, Layer, LogLevel } from "effect"
import { LoggingLive } from "../../../src/layers/observability/Logging.ts"
import { Settings } from "../../../src/services/Settings.ts"
import { keptConsole } from "../../world/Sandbox.ts"
import { testSettings } from "../../world/Settings.ts"

/** What the program logs with these settings. */
const written = (logLevel: LogLevel.LogLevel, program: Effect.Effect<void>) =>
  Effect.gen(function* () {
    const { console, lines } = keptConsole()
    const settings = Layer.succeed(Settings, testSettings({ logLevel }))
    yield* Effect.provide(program, Layer.provide(LoggingLive, settings)).pipe(Effect.withConsole(console))
    return lines.filter((line) => line !== "")
  })

it.live("writes the lines of MUSIC_LOG_LEVEL and of higher levels", function* () {
  const three = Effect.all([Effect.logDebug("one"), Effect.logInfo("two"), Effect.logWarning("three")])
  const program = Effect.asVoid(three)
  const messages = (lines: ReadonlyArray<string>) => lines.map((line): unknown => JSON.parse(line).message)
  expect(messages(yield* written(LogLevel.Debug, program))).toEqual(["one", "two", "three"])
  expect(messages(yield* written(LogLevel.Warning, program))).toEqual(["three"])
  expect(yield* written(LogLevel.None, program)).toEqual([])
})

it.live("writes a line for a defect that is its own cause", function* () {
  const circular = new Error("a defect")
  circular.cause = circular
  const failed = Effect.catchAllCause(Effect.die(circular), (cause) =>
    Effect.logError("Request failed", cause)
  )
  const lines = yield* written(LogLevel.Info, failed)
  expect(lines.map((line): unknown => JSON.parse(line))).toMatchObject([{ message: "Request failed" }])
})
