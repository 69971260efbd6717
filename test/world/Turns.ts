/**
 * Gives the event loop a turn after each test. Without it a file of long synchronous tests reads nothing from its runner, which
 * counts as an error after 60 s, and a slow machine takes that long.
 */
import { afterEach } from "vitest"

// Taken before a test replaces it by that of a fake clock.
const { setImmediate: next } = globalThis

afterEach(() => new Promise<void>((resolve) => void next(resolve)))
