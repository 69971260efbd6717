import * as Effect from "effect/Effect"

/**
 * Milliseconds of processor time that `run` takes in this process. Unlike the time of a wall clock, neither other programs nor a
 * limit of the processor change it, so a bound can tell linear work from quadratic work on any machine.
 */
export const cpuMillisOf = (run: () => void): number => {
  const before = process.cpuUsage()
  run()
  const { system, user } = process.cpuUsage(before)
  return (system + user) / 1_000
}

/** The same for an effect, with its result. */
export const cpuMillisDuring = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const before = process.cpuUsage()
    const answers = yield* effect
    const { system, user } = process.cpuUsage(before)
    return { answers, millis: (system + user) / 1_000 }
  })
