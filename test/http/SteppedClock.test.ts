/** A wall clock that is stepped: quotas and caches in memory keep their length. */
import { describe, expect } from "vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import { makeSteppedClock } from "../world/Time.ts"
import { start } from "../world/UseCaseLayers.ts"
import { it } from "../world/Test.ts"
import { goodRequests, inMemory, outcomeOf, requests } from "./support.ts"
import { paths } from "./Upstreams.ts"

const hour = 3_600_000
const quota = (name: string) => ({ name, quota: 4, windowSeconds: 60 })
const policies = { address: quota("address"), credential: quota("credential") }

describe.each([
  ["set back by an hour, after it ran an hour ahead", hour, -hour],
  // Longer than any cache entry, and shorter than the lifetime of a token, which uses wall time.
  ["set ahead by 20 minutes", 0, hour / 3]
] as const)("A wall clock that is %s", (_, first, second) => {
  it.scoped("changes neither quotas nor how long answers of IAM are known", function* () {
    yield* TestClock.setTime(start)
    const below = yield* Effect.clock
    const { clock, step } = yield* makeSteppedClock
    step(first)
    const pass = (seconds: number) => Effect.withClock(TestClock.adjust(seconds * 1_000), below)
    const test = Effect.gen(function* () {
      const limited = yield* inMemory({ settings: { rateLimit: true }, bounds: policies })
      const version = limited.send({ path: "/api/v1/version" })
      yield* Effect.replicateEffect(version, 3)
      const server = yield* inMemory({ settings: { iam: { introspectionCacheSeconds: 10 } } })
      const { me } = yield* goodRequests(server)
      const { seeded } = server.upstreams
      const asks = [
        requests.testing(seeded.environment.musicSecret),
        requests.testing(`ask_${"x".repeat(43)}`),
        requests.me(`oat_${"x".repeat(43)}`),
        me
      ]
      const expectCalls = (contexts: number, introspections: number) =>
        Effect.gen(function* () {
          const answers = yield* Effect.forEach(asks, server.send)
          expect(answers.map(outcomeOf)).toEqual([200, "testing_secret_invalid", "unauthenticated", 200])
          const counts = [paths.context, paths.introspect].map((path) => server.upstreams.asked(path).length)
          expect(counts).toEqual([contexts, introspections])
        })
      server.upstreams.seen.length = 0
      // A login knows its own introspection.
      yield* expectCalls(2, 1)
      step(second)
      expect((yield* version).headers.ratelimit).toBe('"address";r=0;t=60')
      expect((yield* version).headers["retry-after"]).toBe("15")
      yield* pass(9)
      yield* expectCalls(2, 1)
      // The live token is asked for again after 10 s, refusals after 30 s, the plane after 60 s.
      yield* pass(2)
      yield* expectCalls(2, 2)
      yield* pass(13)
      expect((yield* version).status).toBe(200)
      yield* pass(5)
      yield* expectCalls(2, 3)
      yield* pass(2)
      yield* expectCalls(3, 4)
      yield* pass(31)
      yield* expectCalls(5, 6)
    })
    yield* Effect.withClock(test, clock)
  })
})
