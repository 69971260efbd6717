/** Work with an end: deadlines, brackets, and the spans of methods. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import { describe, expect } from "vitest"
import { bracket } from "../../src/services/Bracket.ts"
import { Deadlines } from "../../src/services/Deadlines.ts"
import { monotonicMillis } from "../../src/services/MonotonicTime.ts"
import { traced } from "../../src/services/Tracing.ts"
import { it } from "../world/Test.ts"

/** Deadlines in milliseconds from now, and the names of those that passed. */
const setUp = Effect.gen(function* () {
  const deadlines = yield* Deadlines
  const now = yield* monotonicMillis
  const passed: Array<string> = []
  const add = (name: string, millis: number) =>
    deadlines.add(now + millis, () => {
      if (name === "defect") throw new Error("a defect")
      passed.push(name)
    })
  /** The names of all that passed, this long after now. */
  const passedAfter = (millis: number) => Effect.as(TestClock.adjust(millis), passed)
  return { add, passedAfter, count: deadlines.count }
})

describe("Deadlines", () => {
  it.scoped("call each one once, when it has passed, unless it was released, and go on after a defect", () =>
    Effect.gen(function* () {
      const { add, count, passedAfter } = yield* setUp
      add("later", 3_000)
      const release = add("released", 1_500)
      add("defect", 500)
      add("first", 1_000)
      expect(yield* passedAfter(999)).toEqual([])
      expect(yield* passedAfter(1)).toEqual(["first"])
      release()
      expect([yield* passedAfter(60_000), count()]).toEqual([["first", "later"], 0])
    }).pipe(Effect.provide(Deadlines.Default))
  )

  it.scoped("wake up for an earlier one, also after an idle time", () =>
    Effect.gen(function* () {
      const { add, passedAfter } = yield* setUp
      add("long", 60_000)
      yield* passedAfter(10)
      add("short", 500)
      expect(yield* passedAfter(490)).toEqual(["short"])
      expect(yield* passedAfter(120_000)).toEqual(["short", "long"])
      add("after", 180_000)
      expect(yield* passedAfter(3_600_000)).toEqual(["short", "long", "after"])
    }).pipe(Effect.provide(Deadlines.Default))
  )
})

describe("A bracket", () => {
  const counted = () => {
    const exits: Array<string> = []
    const hold = <A, E>(effect: Effect.Effect<A, E>) =>
      bracket(
        () => Either.right("place"),
        () => effect,
        (place, exit) => void exits.push(`${place} ${Exit.isInterrupted(exit) ? "interrupted" : exit._tag}`)
      )
    return { exits, hold }
  }

  it.effect("releases once, after a success, a failure, a defect and an interruption", function* () {
    const { exits, hold } = counted()
    expect(yield* hold(Effect.succeed(1))).toBe(1)
    expect(yield* Effect.flip(hold(Effect.fail("no")))).toBe("no")
    yield* Effect.exit(hold(Effect.die("defect")))
    const waiting = yield* Effect.fork(hold(Effect.never))
    yield* Effect.yieldNow()
    expect(exits).toHaveLength(3)
    yield* Fiber.interrupt(waiting)
    expect(exits).toEqual(["place Success", "place Failure", "place Failure", "place interrupted"])
  })

  it.effect("releases nothing that was refused, or of a fiber that is interrupted before", function* () {
    const { exits, hold } = counted()
    yield* Fiber.interrupt(yield* Effect.fork(hold(Effect.never)))
    const refused = bracket(
      () => Either.left("full"),
      () => Effect.void,
      () => void exits.push("released")
    )
    expect([yield* Effect.flip(refused), exits]).toEqual(["full", []])
  })
})

it.effect("A traced method has a span of its name, and none while tracing is off", function* () {
  const nameOfSpan = Effect.map(
    Effect.option(Effect.currentSpan),
    Option.map(({ name }) => name)
  )
  const method = Effect.fnUntraced(function* () {
    return yield* nameOfSpan
  }, traced("Sessions.login"))
  expect(yield* method()).toEqual(Option.some("Sessions.login"))
  expect(yield* Effect.withTracerEnabled(method(), false)).toEqual(Option.none())
})
