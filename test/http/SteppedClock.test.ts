/** A wall clock that is stepped: quotas, caches and deadlines in memory keep their length. */
import { describe, expect } from "vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/TestClock"
import { makeSteppedClock } from "../support/SteppedClock.ts"
import { start } from "../support/UseCaseLayers.ts"
import { settle, until } from "../support/Waiting.ts"
import { it } from "../world/Test.ts"
import { backend, goodRequests, inMemory, openPeer, type Options, outcomeOf, requests } from "./support.ts"
import { paths } from "./Upstreams.ts"

const hour = 3_600_000
const steps = [
  ["set back by an hour, after it ran an hour ahead", hour, -hour],
  // Longer than any cache entry, and shorter than the lifetime of a token, which uses wall time.
  ["set ahead by 20 minutes", 0, hour / 3]
] as const

describe("A wall clock that is stepped", () => {
  for (const [name, first, second] of steps) {
    /** Runs a test on a stepped clock: one step before it, and one at `stepAgain`. */
    const stepping = <A, E, R>(
      test: (time: {
        readonly stepAgain: Effect.Effect<void>
        readonly pass: (seconds: number) => Effect.Effect<void>
      }) => Effect.Effect<A, E, R>
    ) =>
      Effect.gen(function* () {
        yield* TestClock.setTime(start)
        const below = yield* Effect.clock
        const { clock, step } = yield* makeSteppedClock
        step(first)
        const stepAgain = Effect.sync(() => step(second))
        const pass = (seconds: number) => Effect.withClock(TestClock.adjust(seconds * 1_000), below)
        return yield* Effect.withClock(test({ stepAgain, pass }), clock)
      })

    it.scoped(`(${name}) does not change the quota of an address`, () =>
      stepping(({ pass, stepAgain }) =>
        Effect.gen(function* () {
          const quota = { quota: 4, windowSeconds: 60 }
          const limited: Options = {
            settings: { rateLimit: true },
            policies: { address: { name: "address", ...quota }, credential: { name: "credential", ...quota } }
          }
          const server = yield* inMemory(limited)
          const version = server.send({ path: "/api/v1/version" })
          for (let at = 0; at < 3; at += 1) yield* version
          yield* stepAgain
          expect((yield* version).headers.ratelimit).toBe('"address";r=0;t=60')
          expect((yield* version).headers["retry-after"]).toBe("15")
          yield* pass(15)
          expect((yield* version).status).toBe(200)
        })
      )
    )

    it.scoped(`(${name}) does not change how long answers of IAM are known`, () =>
      stepping(({ pass, stepAgain }) =>
        Effect.gen(function* () {
          const server = yield* inMemory({ settings: { iam: { introspectionCacheSeconds: 10 } } })
          const { me } = yield* goodRequests(server)
          const { environment } = server.upstreams.seeded
          const asks = [
            requests.testing(environment.musicSecret),
            requests.testing(`ask_${"x".repeat(43)}`),
            requests.me(`oat_${"x".repeat(43)}`),
            me
          ]
          const verdicts = [200, "testing_secret_invalid", "unauthenticated", 200]
          const expectCalls = (contexts: number, introspections: number) =>
            Effect.gen(function* () {
              const answers = yield* Effect.forEach(asks, (sent) => server.send(sent))
              expect(answers.map(outcomeOf)).toEqual(verdicts)
              const counts = [paths.context, paths.introspect].map(
                (path) => server.upstreams.asked(path).length
              )
              expect(counts).toEqual([contexts, introspections])
            })
          server.upstreams.seen.length = 0
          // A login knows its own introspection.
          yield* expectCalls(2, 1)
          yield* stepAgain
          yield* pass(9)
          yield* expectCalls(2, 1)
          // The live token is asked for again after 10 s, refusals after 30 s, the plane after 60 s.
          yield* pass(2)
          yield* expectCalls(2, 2)
          yield* pass(18)
          yield* expectCalls(2, 3)
          yield* pass(2)
          yield* expectCalls(3, 4)
          yield* pass(31)
          yield* expectCalls(5, 6)
        })
      )
    )

    it.scoped(`(${name}) does not change the deadline of a stalled body`, () =>
      stepping(({ pass, stepAgain }) =>
        Effect.gen(function* () {
          const { port } = yield* backend({ settings: { requestDeadlineSeconds: 25 } })
          const peer = yield* openPeer(
            port,
            "POST /api/v1/telemetry HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
          )
          yield* settle
          yield* stepAgain
          yield* pass(24)
          yield* settle
          expect(peer.text()).toBe("")
          yield* pass(2)
          yield* until(() => peer.answered())
          expect(peer.answer().status).toBe(408)
        })
      )
    )
  }
})
