/**
 * Milliseconds of processor time in this process. Unlike the time of a wall clock, neither other programs nor a limit of the processor
 * change it, so a bound can tell linear work from quadratic work on any machine.
 */
import { Effect } from "effect"

const since = (before: NodeJS.CpuUsage): number => {
  const { system, user } = process.cpuUsage(before)
  return (system + user) / 1_000
}

export const cpuMillisOf = (run: () => void): number => {
  const before = process.cpuUsage()
  run()
  return since(before)
}

/** The same for an effect, with its result. */
export const cpuMillisDuring = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const before = process.cpuUsage()
    return Effect.map(effect, (answers) => ({ answers, millis: since(before) }))
  })
