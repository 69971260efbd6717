/** A wall clock that is stepped: quotas, caches and deadlines in memory keep their length. */
import { connect } from "node:net"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { iamFaults } from "../../sandbox/upstreams/Iam.ts"
import { iamWorldNow, startTime } from "../layers/iam/Simulated.ts"
import { asks, serverOverIam } from "../support/RealIam.ts"
import type { SettingsOverrides } from "../support/Settings.ts"
import { makeSteppedClock } from "../support/SteppedClock.ts"
import { type Answer, backend, call, errorOf, good } from "./support.ts"
import { settle, until } from "../support/Waiting.ts"

const hour = 3_600_000
const address = "203.0.113.1"
const steps = [
  ["set back by an hour, after it ran an hour ahead", [hour, -hour]],
  // Longer than any cache entry, and shorter than the lifetime of a token, which uses wall time.
  ["set ahead by 20 minutes", [0, hour / 3]]
] as const

/** Runs a test on a stepped clock: one step before it, and one at `stepAgain`. */
const stepping = <A, E, R>(
  [first, second]: readonly [number, number],
  test: (time: {
    readonly stepAgain: Effect.Effect<void>
    readonly pass: (seconds: number) => Effect.Effect<void>
  }) => Effect.Effect<A, E, R>
) =>
  Effect.gen(function* () {
    yield* TestClock.setTime(startTime)
    const below = yield* Effect.clock
    const { clock, step } = yield* makeSteppedClock
    step(first)
    const stepAgain = Effect.sync(() => step(second))
    const pass = (seconds: number) => Effect.withClock(TestClock.adjust(seconds * 1_000), below)
    return yield* Effect.withClock(test({ stepAgain, pass }), clock)
  })

const codeOf = (answer: Answer) => (answer.status < 300 ? answer.status : errorOf(answer).code)

/** IAM reads the same clock, so its times agree with the server's. */
const world = (settings: SettingsOverrides = {}) => serverOverIam({}, settings, iamWorldNow)

describe("A wall clock that is stepped", () => {
  for (const [name, by] of steps) {
    describe(`(${name})`, () => {
      it.scoped("does not change the quota of an address", () =>
        stepping(by, ({ stepAgain, pass }) =>
          Effect.gen(function* () {
            const policies = {
              address: { name: "address", quota: 4, windowSeconds: 60 },
              credential: { name: "credential", quota: 4, windowSeconds: 60 }
            }
            const server = yield* backend({ settings: { rateLimit: true }, policies })
            const me = call(server, good.me)
            for (let at = 0; at < 3; at += 1) expect((yield* me).status).toBe(200)
            yield* stepAgain
            expect((yield* me).headers.ratelimit).toBe('"address";r=0;t=60, "credential";r=0;t=60')
            const refused = yield* me
            expect([refused.status, refused.headers["retry-after"]]).toEqual([429, "15"])
            yield* pass(15)
            expect((yield* me).status).toBe(200)
          })
        )
      )

      it.scoped("caches a testing plane for 60 s, and a refused secret or token for 30 s", () =>
        stepping(by, ({ stepAgain, pass }) =>
          Effect.gen(function* () {
            const { asked, environment, from } = yield* world()
            const counts = () => [
              asked("/application/testing-context").length,
              asked("/oauth/introspect").length
            ]
            const known = from(address)(asks.testing(environment.musicSecret))
            const dead = from("203.0.113.2")(asks.testing(`ask_${"x".repeat(43)}`))
            const me = from(address)(asks.me(`oat_${"x".repeat(43)}`))
            const all = Effect.map(Effect.all([known, dead, me]), (answers) => answers.map(codeOf))
            const verdicts = [200, "testing_secret_invalid", "unauthenticated"]
            expect([yield* all, counts()]).toEqual([verdicts, [2, 1]])
            yield* stepAgain
            yield* pass(29)
            expect([yield* all, counts()]).toEqual([verdicts, [2, 1]])
            yield* pass(2)
            expect([yield* all, counts()]).toEqual([verdicts, [3, 2]])
            yield* pass(30)
            expect([codeOf(yield* known), counts()]).toEqual([200, [4, 2]])
          })
        )
      )

      it.scoped("does not change the pause after IAM's 429", () =>
        stepping(by, ({ stepAgain, pass }) =>
          Effect.gen(function* () {
            const { asked, from, login, simulator } = yield* world()
            const { accessToken } = yield* login()
            const introspections = () => asked("/oauth/introspect").length
            const me = from(address)(asks.me(Redacted.value(accessToken)))
            expect(codeOf(yield* me)).toBe(200)
            simulator.fail({ path: "/api/v1/oauth/introspect", fault: iamFaults.rateLimited(20) })
            expect(codeOf(yield* me)).toBe("rate_limited")
            const before = introspections()
            yield* stepAgain
            yield* pass(4)
            const held = yield* me
            expect([codeOf(held), introspections()]).toEqual(["rate_limited", before])
            expect(Number(held.headers["retry-after"])).toBeLessThanOrEqual(16)
            yield* pass(16)
            yield* me
            expect(introspections()).toBe(before + 1)
          })
        )
      )

      it.scoped("caches an introspection for MUSIC_INTROSPECTION_CACHE_SECONDS", () =>
        stepping(by, ({ stepAgain, pass }) =>
          Effect.gen(function* () {
            const { asked, from, login } = yield* world({ iam: { introspectionCacheSeconds: 10 } })
            const { accessToken } = yield* login()
            const introspections = () => asked("/oauth/introspect").length
            const me = from(address)(asks.me(Redacted.value(accessToken)))
            expect([codeOf(yield* me), introspections()]).toEqual([200, 1])
            yield* stepAgain
            yield* pass(9)
            yield* me
            expect(introspections()).toBe(1)
            yield* pass(2)
            yield* me
            expect(introspections()).toBe(2)
          })
        )
      )

      it.scoped("does not change the deadline of a stalled body", () =>
        stepping(by, ({ stepAgain, pass }) =>
          Effect.gen(function* () {
            const server = yield* backend({ settings: { requestDeadlineSeconds: 25 } })
            let received = ""
            const socket = yield* Effect.acquireRelease(
              Effect.async<ReturnType<typeof connect>>((resume) => {
                const opened = connect(server.port, "127.0.0.1", () => resume(Effect.succeed(opened)))
                opened.on("data", (part) => {
                  received += part.toString()
                })
                opened.on("error", () => {})
              }),
              (opened) => Effect.sync(() => opened.destroy())
            )
            const length = 1_000
            socket.write(
              `POST /api/v1/telemetry HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n{`
            )
            yield* settle
            yield* stepAgain
            yield* pass(24)
            yield* settle
            expect(received).toBe("")
            yield* pass(2)
            yield* until(() => received !== "")
            expect(received).toMatch(/^HTTP\/1\.1 408 /)
          })
        )
      )
    })
  }
})
