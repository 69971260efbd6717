import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/TestClock"
import { makeDestination } from "../../../src/layers/delivery/Destination.ts"

describe("The tracker as a destination", () => {
  it.effect("takes at most 450 writes in any hour", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(10_000_000)
      const destination = yield* makeDestination("It")
      for (let write = 0; write < 449; write += 1) yield* destination.wrote(10_000_000 + write * 2_000)
      yield* TestClock.setTime(10_000_000 + 900_000)
      yield* destination.open
      yield* destination.wrote(10_000_000 + 900_000)
      const waiting = yield* Effect.fork(destination.open)
      yield* TestClock.setTime(10_000_000 + 3_599_999)
      expect(yield* Fiber.poll(waiting)).toMatchObject({ _tag: "None" })
      yield* TestClock.setTime(10_000_000 + 3_600_000)
      yield* Fiber.join(waiting)
    })
  )
})
