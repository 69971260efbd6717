/** Timers of tests in which a deadline must not pass, however slow the machine is. */
import { afterEach, beforeEach, vi } from "vitest"

const factor = 1_000

/**
 * Lengthens every timer of the tests that follow in this block by a factor of 1 000. A client decides by its clock whether another
 * attempt fits into a deadline of milliseconds, and the timer of the deadline does not end the first attempt.
 */
export const stretchTimers = (): void => {
  beforeEach(() => {
    const { setTimeout: original } = globalThis
    vi.stubGlobal("setTimeout", (run: () => void, milliseconds = 0) => original(run, milliseconds * factor))
  })
  afterEach(() => vi.unstubAllGlobals())
}
