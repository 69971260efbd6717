/** Many callers on the clock of the test, over the real IAM client and the simulated IAM with its 120 calls a minute and path. */
import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type { Failure } from "../../../../src/schema/Failure.ts"
import type { Session } from "../../../../src/schema/Session.ts"
import { Iam } from "../../../../src/services/Iam.ts"
import { Notifications } from "../../../../src/services/Notifications.ts"
import { Sessions } from "../../../../src/services/Sessions.ts"
import { Settings } from "../../../../src/services/Settings.ts"
import { Ting } from "../../../../src/services/Ting.ts"
import { type Random, seeded } from "../../../durability/Random.ts"
import { testSettings } from "../../../support/Settings.ts"
import * as SimulatedTables from "../../../support/SimulatedTables.ts"
import * as TestStore from "../../../support/TestStore.ts"
import { bearer, callerKey, inRequest, useCases } from "../../../support/UseCaseLayers.ts"
import { iamWorldNow, production, startTime } from "../Simulated.ts"

const second = 1_000
const minute = 60 * second

/** A Ting that accepts everything: these tests concern IAM. */
const agreeableTing = Layer.succeed(Ting, {
  prepareRegistration: ({ publicId }) => ({
    endpoint: "subscriptions.register",
    body: new Uint8Array(),
    expected: publicId
  }),
  prepareTing: ({ key }) => ({ endpoint: "tings.send", body: new Uint8Array(), expected: key }),
  register: ({ expected }) => Effect.succeed({ id: "sub_1", applicationId: "music", recipient: expected }),
  send: ({ expected }) =>
    Effect.succeed({ id: "msg_1", createdAt: "", key: expected, silent: false, replayed: false })
})

type Kind = "login" | "refresh" | "me" | "ting"

interface Call {
  readonly who: string
  readonly kind: Kind
  /** Milliseconds of the simulation. */
  readonly at: number
  /** The call came at the time that an earlier refusal gave. */
  readonly onTime: boolean
  readonly code: Failure["code"] | undefined
  readonly retryAfterSeconds: number
}

/** An actor of the simulation and its next time (milliseconds of the simulation). */
interface Agent {
  next: number
  readonly act: Effect.Effect<number, never, Sessions | Notifications>
}

/** Half an hour in seconds: only the simulation moves time, and no timer ever ends. */
const makeSimulatedClock = () => {
  let at = startTime
  const clock: Clock.Clock = {
    [Clock.ClockTypeId]: Clock.ClockTypeId,
    unsafeCurrentTimeMillis: () => at,
    unsafeCurrentTimeNanos: () => BigInt(at) * 1_000_000n,
    currentTimeMillis: Effect.sync(() => at),
    currentTimeNanos: Effect.sync(() => BigInt(at) * 1_000_000n),
    sleep: () => Effect.never
  }
  return {
    clock,
    advance: (millis: number) => {
      at += millis
    }
  }
}

const makeSimulation = (clock: ReturnType<typeof makeSimulatedClock>) =>
  Effect.gen(function* () {
    const { iam, simulator, slt } = yield* iamWorldNow()
    const context = yield* Layer.build(
      useCases.pipe(
        Layer.provide(
          Layer.mergeAll(
            Layer.succeed(Iam, iam),
            agreeableTing,
            TestStore.layer,
            SimulatedTables.layer([]),
            Layer.succeed(Settings, testSettings({ rateLimit: true }))
          )
        )
      )
    )
    const startedAt = yield* Clock.currentTimeMillis
    const calls: Array<Call> = []
    let keys = 0
    const freshKey = () => callerKey(`key-${++keys}`)

    const run = (agents: ReadonlyArray<Agent>, duration: number) =>
      Effect.gen(function* () {
        const end = (yield* Clock.currentTimeMillis) + duration
        while ((yield* Clock.currentTimeMillis) < end) {
          const now = (yield* Clock.currentTimeMillis) - startedAt
          const due = agents.filter(({ next }) => next <= now)
          yield* Effect.forEach(
            due,
            (agent) =>
              Effect.map(agent.act, (next) => {
                agent.next = next
              }),
            { concurrency: "unbounded", discard: true }
          )
          clock.advance(second)
        }
      }).pipe(Effect.provide(context))

    const now = Effect.map(Clock.currentTimeMillis, (at) => at - startedAt)

    const me = (session: Session) =>
      Effect.flatMap(Sessions, (sessions) =>
        Effect.flatMap(sessions.authenticate(production, bearer(session.access_token)), (caller) =>
          sessions.me(production, caller)
        )
      )
    const ting = (session: Session) =>
      Effect.gen(function* () {
        const caller = yield* Effect.flatMap(Sessions, (sessions) =>
          sessions.authenticate(production, bearer(session.access_token))
        )
        const notifications = yield* Notifications
        yield* notifications.send(production, caller, {
          type: "music.trigger.fired",
          key: `${caller.actor.public_id}/${++keys}`,
          data: {}
        })
      })

    /** Makes a call and returns the time of the next one: as planned, or after the seconds of a refusal. */
    const attempt = <A>(
      who: string,
      network: string,
      kind: Kind,
      onTime: boolean,
      call: Effect.Effect<A, Failure, Sessions | Notifications>
    ) =>
      call.pipe(
        inRequest({ clientNetwork: network }),
        Effect.either,
        Effect.tap((result) =>
          Effect.map(now, (at) => {
            const failure = Either.isLeft(result) ? result.left : undefined
            calls.push({
              who,
              kind,
              at,
              onTime,
              code: failure?.code,
              retryAfterSeconds: failure?.retryAfterSeconds ?? 0
            })
          })
        )
      )

    /** A `me` every two minutes, a ting every five, a refresh every 25; it obeys Retry-After. */
    const daemon = (
      name: string,
      random: Random,
      { loginAt, startAt = loginAt + second }: { readonly loginAt: number; readonly startAt?: number }
    ): ReadonlyArray<Agent> => {
      let session: Session | undefined
      const network = `198.51.100.${name}`
      const loginKey = freshKey()
      let token: Redacted.Redacted | undefined
      let refreshKey = freshKey()
      const repeating = <A>(
        kind: Kind,
        period: number,
        firstAt: number,
        call: (session: Session) => Effect.Effect<A, Failure, Sessions | Notifications>
      ): Agent => {
        let limited = false
        return {
          next: firstAt,
          act: Effect.gen(function* () {
            const at = yield* now
            if (session === undefined) return at + second
            const result = yield* attempt(name, network, kind, limited, call(session))
            limited = Either.isLeft(result) && result.left.code === "rate_limited"
            return at + (Either.isLeft(result) ? (result.left.retryAfterSeconds ?? 5) * second : period)
          })
        }
      }
      const phase = (period: number) => startAt + Math.floor(random.next() * period)
      const login: Agent = {
        next: loginAt,
        act: Effect.gen(function* () {
          const sessions = yield* Sessions
          token ??= slt()
          const result = yield* attempt(
            name,
            network,
            "login",
            false,
            sessions.login(production, { slt: token, key: loginKey })
          )
          if (Either.isRight(result)) session = result.right
          return Either.isRight(result) ? Number.POSITIVE_INFINITY : (yield* now) + second
        })
      }
      const refresh = repeating("refresh", 25 * minute, phase(25 * minute), ({ refresh_token }) =>
        Effect.flatMap(Sessions, (sessions) =>
          sessions.refresh(production, { refreshToken: Redacted.make(refresh_token), key: refreshKey })
        ).pipe(
          Effect.tap((rotated) =>
            Effect.sync(() => {
              session = rotated
              refreshKey = freshKey()
            })
          )
        )
      )
      return [
        login,
        refresh,
        repeating("me", 2 * minute, phase(2 * minute), me),
        repeating("ting", 5 * minute, phase(5 * minute), ting)
      ]
    }

    const every = (pause: number, act: Effect.Effect<unknown, Failure, Sessions | Notifications>): Agent => ({
      next: 0,
      act: Effect.zipRight(
        Effect.ignore(act),
        Effect.map(now, (at) => at + pause)
      )
    })

    return { calls, daemon, every, freshKey, me, run, simulator, slt }
  })

const simulated = <A, E, R>(
  play: (made: Effect.Effect.Success<ReturnType<typeof makeSimulation>>) => Effect.Effect<A, E, R>
) => {
  const clock = makeSimulatedClock()
  return Effect.flatMap(makeSimulation(clock), play).pipe(Effect.withClock(clock.clock))
}

const limitedByIam = (simulator: { readonly seen: ReadonlyArray<{ readonly status: number | undefined }> }) =>
  simulator.seen.filter(({ status }) => status === 429).length

const strange = (kind: string, at: number) => `${kind}_${String(at).padStart(43, "x")}`

describe("With IAM's 120 calls a minute and path", () => {
  it.scoped(
    "60 well-behaved daemons are never refused beside a poller, a dead token in a loop and strangers from 40 addresses",
    () =>
      simulated(({ calls, daemon, every, freshKey, me, run, simulator, slt }) =>
        Effect.gen(function* () {
          const random = seeded(8)
          const daemons = Array.from({ length: 60 }, (_, at) =>
            daemon(String(at), random, { loginAt: at * 5 * second })
          ).flat()
          let polling: Session | undefined
          const poll = Effect.gen(function* () {
            const sessions = yield* Sessions
            polling ??= yield* sessions.login(production, { slt: slt(), key: freshKey() })
            const introspections = Array.from({ length: 2 }, () => Effect.exit(me(polling as Session)))
            yield* Effect.all(introspections)
          }).pipe(inRequest({ clientNetwork: "203.0.113.1" }))
          const dead = Effect.flatMap(Sessions, (sessions) =>
            sessions.refresh(production, {
              refreshToken: Redacted.make(strange("ort", 0)),
              key: freshKey()
            })
          ).pipe(inRequest({ clientNetwork: "198.51.100.7" }))
          let guesses = 0
          const strangers = Array.from({ length: 40 }, (_, at) =>
            every(
              6 * second,
              Effect.suspend(() => {
                guesses += 1
                const guess = Redacted.make(strange(guesses % 2 === 0 ? "ort" : "oat", guesses))
                return Effect.flatMap(Sessions, (sessions) =>
                  guesses % 2 === 0
                    ? Effect.asVoid(sessions.refresh(production, { refreshToken: guess, key: freshKey() }))
                    : Effect.asVoid(sessions.authenticate(production, bearer(Redacted.value(guess))))
                )
              }).pipe(inRequest({ clientNetwork: `192.0.2.${at}` }))
            )
          )
          yield* run([...daemons, every(second, poll), every(second, dead), ...strangers], 7 * minute)
          deepStrictEqual(
            calls.filter(({ code }) => code !== undefined),
            []
          )
          assert.isAbove(calls.filter(({ kind }) => kind === "refresh").length, 8)
          assert.strictEqual(limitedByIam(simulator), 0)
        })
      ),
    120_000
  )

  it.scoped(
    "600 daemons lose no session: logins and refreshes succeed, and introspections are refused evenly until the given time",
    () =>
      simulated(({ calls, daemon, run, simulator }) =>
        Effect.gen(function* () {
          const random = seeded(8)
          const daemons = Array.from({ length: 600 }, (_, at) =>
            daemon(String(at), random, { loginAt: at * second, startAt: 10 * minute })
          ).flat()
          yield* run(daemons, 18 * minute)
          const of = (...kinds: ReadonlyArray<Kind>) => calls.filter(({ kind }) => kinds.includes(kind))
          deepStrictEqual(
            of("login", "refresh").filter(({ code }) => code !== undefined),
            []
          )
          assert.strictEqual(of("login").length, 600)
          assert.isAbove(of("refresh").length, 150)
          deepStrictEqual(
            [...new Set(calls.map(({ code }) => code))].sort(),
            [undefined, "rate_limited"].sort()
          )
          assert.strictEqual(limitedByIam(simulator), 0)
          const ordinaryCalls = of("me", "ting")
          const kept = (calls: ReadonlyArray<Call>) => calls.filter(({ code }) => code === undefined)
          const onTime = ordinaryCalls.filter((call) => call.onTime)
          assert.isAbove(kept(onTime).length / onTime.length, 0.9)
          assert.isTrue(ordinaryCalls.every(({ retryAfterSeconds }) => retryAfterSeconds <= 900))
          const served = [0, 1, 2, 3].map(
            (quarter) =>
              kept(ordinaryCalls).filter(({ who }) => Math.floor(Number(who) / 150) === quarter).length
          )
          assert.isAbove(Math.min(...served) / Math.max(...served), 0.75)
        })
      ),
    120_000
  )
})
