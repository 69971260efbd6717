/** The simulated upstreams of a run, in this process, and the settings of instances that use them. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import {
  startUpstreams,
  type SimulatedUpstreams,
  upstreamEnvironment
} from "../../sandbox/SimulatedUpstreams.ts"

export const repository = "harbor/music"
export const issuesPath = `/repos/${repository}/issues`
export const ingestPath = "/api/ingest"

export interface Simulators extends SimulatedUpstreams {
  readonly close: () => Promise<void>
}

export const startSimulators = async (): Promise<Simulators> => {
  const scope = await Effect.runPromise(Scope.make())
  const world = await Effect.runPromise(
    Scope.extend(
      startUpstreams(() => Date.now()),
      scope
    )
  )
  return { ...world, close: () => Effect.runPromise(Scope.close(scope, Exit.void)) }
}

/** The environment of an instance, without its database. */
export const environmentOf = (world: SimulatedUpstreams): Readonly<Record<string, string>> => ({
  MUSIC_BIND: "127.0.0.1:0",
  ...upstreamEnvironment(world),
  MUSIC_RATE_LIMIT: "off",
  MUSIC_LOG_FORMAT: "json",
  MUSIC_LOG_LEVEL: process.env.DURABILITY_LOG_LEVEL ?? "info"
})
