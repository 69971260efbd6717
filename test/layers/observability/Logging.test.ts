import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import { jsonLine } from "../../../src/layers/observability/Logging.ts"

it.effect("writes a line for a defect that is its own cause", () =>
  Effect.gen(function* () {
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
)
