import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { traced } from "../../src/services/Tracing.ts"

describe("A traced effect", () => {
  const nameOfSpan = Effect.map(
    Effect.option(Effect.currentSpan),
    Option.map(({ name }) => name)
  )

  it.effect("has a span of its name, and none while tracing is off", function* () {
    const method = Effect.fnUntraced(function* () {
      return yield* nameOfSpan
    }, traced("Sessions.login"))
    expect(yield* method()).toEqual(Option.some("Sessions.login"))
    expect(yield* Effect.withTracerEnabled(method(), false)).toEqual(Option.none())
  })
})
