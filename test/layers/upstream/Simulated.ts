/** Simulators for tests of HTTP clients: they close with the test and use its clock. */
import { createServer, type RequestListener } from "node:http"
import { Clock, Effect, Runtime, type Scope } from "effect"
import { type Now, type Reply, type Simulator, startSimulator } from "../../../sandbox/upstreams/Simulator.ts"
import { listening } from "../../world/Egress.ts"

/** The clock of the test, for a simulator. */
export const testNow: Effect.Effect<Now> = Effect.map(
  Effect.runtime<never>(),
  (runtime) => () => Runtime.runSync(runtime)(Clock.currentTimeMillis)
)

/** Any simulator, closed with the scope. */
export const simulated = <S extends { readonly close: () => Promise<void> }>(
  start: (now: Now) => S | Promise<S>
) =>
  Effect.flatMap(testNow, (now) =>
    Effect.acquireRelease(
      Effect.promise(async () => start(now)),
      (simulator) => Effect.promise(() => simulator.close())
    )
  )

/** A server that answers every request with the value of `reply`. */
export const answering = (reply: () => Reply): Effect.Effect<Simulator, never, Scope.Scope> =>
  simulated((now) => startSimulator({ now, handle: reply }))

/** A server for cases that no simulator covers: partial answers, and bodies without a length. */
export const rawServer = (listener: RequestListener) => {
  let connections = 0
  const server = createServer(listener).on("connection", () => {
    connections += 1
  })
  return Effect.map(listening(server), (port) => ({
    url: `http://127.0.0.1:${port}`,
    connections: () => connections
  }))
}
