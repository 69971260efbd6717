import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as TestClock from "effect/TestClock"
import { makeLineOutput } from "../../../src/layers/process/StandardOutput.ts"

const failure = (code: string) => Object.assign(new Error(code), { code })

/** A target with a state that the test sets: free bytes, or the code of its error. */
const makeTarget = () => {
  const target = { state: Number.POSITIVE_INFINITY as number | string, text: "", lost: 0 }
  const output = makeLineOutput(
    (bytes) => {
      if (typeof target.state === "string") throw failure(target.state)
      const count = Math.min(bytes.length, target.state)
      target.text += Buffer.from(bytes.subarray(0, count)).toString()
      target.state -= count
      // As the system does: a short write, then the error.
      if (count === 0) throw failure("EAGAIN")
      return count
    },
    (lines) => {
      target.lost += lines
    }
  )
  return { target, output }
}

describe("Lines on standard output", () => {
  it.each(["ENOSPC", "EPIPE", "EIO"])(
    "are counted while the target fails with %s, and written after it",
    (code) => {
      const { output, target } = makeTarget()
      // The disk takes a line in part: the next one begins a line of its own.
      target.state = 3
      output.write("first\nsecond\n")
      target.state = code
      output.write("third\nfourth\n")
      expect(target.lost).toBe(4)
      target.state = Number.POSITIVE_INFINITY
      output.write("fifth\n")
      output.write("sixth\n")
      expect([target.text, target.lost]).toEqual(["fir\nfifth\nsixth\n", 4])
    }
  )

  it.effect(
    "wait for a reader that stalls, in order, up to 1 MiB; the end waits for half a second",
    function* () {
      const { output, target } = makeTarget()
      const line = `${"x".repeat(999)}\n`
      target.state = 500
      for (let at = 0; at < 2_000; at += 1) output.write(line)
      expect([target.text.length, target.lost > 900, target.lost < 1_000]).toEqual([500, true, true])
      const ending = yield* Effect.fork(output.drain)
      yield* TestClock.adjust("499 millis")
      expect(Option.isNone(yield* Fiber.poll(ending))).toBe(true)
      yield* TestClock.adjust("1 millis")
      expect(Option.isSome(yield* Fiber.poll(ending))).toBe(true)
      target.state = Number.POSITIVE_INFINITY
      yield* output.drain
      expect(target.text).toBe(line.repeat(2_000 - target.lost))
    }
  )
})
