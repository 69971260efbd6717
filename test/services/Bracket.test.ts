import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { bracket } from "../../src/services/Bracket.ts"

describe("bracket", () => {
  const counted = () => {
    const exits: Array<string> = []
    let held = 0
    const hold = <A, E>(effect: Effect.Effect<A, E>) =>
      bracket(
        () => {
          held += 1
          return Either.right("place")
        },
        () => effect,
        (place, exit) => {
          held -= 1
          exits.push(`${place} ${Exit.isInterrupted(exit) ? "interrupted" : exit._tag}`)
        }
      )
    return { exits, held: () => held, hold }
  }

  it.effect("releases once, after a success, a failure, a defect and an interruption", function* () {
    const { exits, held, hold } = counted()
    expect(yield* hold(Effect.succeed(1))).toBe(1)
    expect(yield* Effect.flip(hold(Effect.fail("no")))).toBe("no")
    expect(Exit.isFailure(yield* Effect.exit(hold(Effect.die("defect"))))).toBe(true)
    const waiting = yield* Effect.fork(hold(Effect.never))
    yield* Effect.yieldNow()
    expect(held()).toBe(1)
    yield* Fiber.interrupt(waiting)
    expect(held()).toBe(0)
    expect(exits).toEqual(["place Success", "place Failure", "place Failure", "place interrupted"])
  })

  it.effect("acquires nothing for a fiber that is interrupted before", function* () {
    const { exits, hold } = counted()
    const fiber = yield* Effect.fork(hold(Effect.never))
    yield* Fiber.interrupt(fiber)
    expect(exits).toEqual([])
  })

  it.effect("fails with the refusal of the acquisition, and releases nothing then", function* () {
    let released = false
    const refused = bracket(
      () => Either.left("full"),
      () => Effect.void,
      () => {
        released = true
      }
    )
    expect(yield* Effect.flip(refused)).toBe("full")
    expect(released).toBe(false)
  })
})
