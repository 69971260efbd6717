import { expect } from "vitest"
import { it } from "../../world/Test.ts"
import type * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as LogLevel from "effect/LogLevel"
import { jsonLine, LoggingLive } from "../../../src/layers/observability/Logging.ts"
import { Settings } from "../../../src/services/Settings.ts"
import { testSettings } from "../../support/Settings.ts"

it.effect("writes a line for a defect that is its own cause", function* () {
  const lines: Array<string> = []
  const circular = new Error("a defect")
  circular.cause = circular
  yield* Effect.logError(
    "Request failed",
    yield* Effect.sandbox(Effect.die(circular)).pipe(Effect.flip)
  ).pipe(
    Effect.provide(
      Logger.replace(
        Logger.defaultLogger,
        Logger.map(jsonLine, (line) => void lines.push(line))
      )
    )
  )
  expect(lines.map((line): unknown => JSON.parse(line))).toMatchObject([{ message: "Request failed" }])
})

it.effect(
  "writes the lines of MUSIC_LOG_LEVEL and of higher levels, in the form of MUSIC_LOG_FORMAT",
  function* () {
    const written = (logLevel: LogLevel.LogLevel, logFormat: "json" | "pretty") =>
      Effect.gen(function* () {
        const lines: Array<string> = []
        const { unsafe } = yield* Effect.console
        const push = (...parts: ReadonlyArray<unknown>) => void lines.push(parts.map(String).join(" "))
        const collecting: Console.Console = {
          ...(yield* Effect.console),
          unsafe: { ...unsafe, log: push, group: push, groupCollapsed: push }
        }
        yield* Effect.all([Effect.logDebug("one"), Effect.logInfo("two"), Effect.logWarning("three")]).pipe(
          Effect.provide(
            Layer.provide(LoggingLive, Layer.succeed(Settings, testSettings({ logFormat, logLevel })))
          ),
          Effect.withConsole(collecting)
        )
        return lines.flatMap((line) => line.split("\n")).filter((line) => line !== "")
      })
    const messages = (lines: ReadonlyArray<string>) => lines.map((line): unknown => JSON.parse(line).message)
    expect(messages(yield* written(LogLevel.Debug, "json"))).toEqual(["one", "two", "three"])
    expect(messages(yield* written(LogLevel.Warning, "json"))).toEqual(["three"])
    expect(yield* written(LogLevel.None, "json")).toEqual([])
    const pretty = yield* written(LogLevel.Info, "pretty")
    expect(pretty.map((line) => /two|three/.exec(line)?.[0])).toEqual(["two", "three"])
    expect(pretty[0]).not.toMatch(/^\{/)
  }
)
