/** A program: IAM and Ting for a server on another loopback. Prints the server's settings as one line of JSON, and runs until it is killed. */
import { Effect } from "effect"
import { startUpstreams, upstreamEnvironment } from "../../sandbox/SimulatedUpstreams.ts"

const program = Effect.gen(function* () {
  const world = yield* startUpstreams(() => Date.now())
  process.stdout.write(`${JSON.stringify(upstreamEnvironment(world))}\n`)
  return yield* Effect.never
})
await Effect.runPromise(Effect.scoped(program))
