import { assert, describe } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { defaultBound } from "../../src/http/middleware/Admission.ts"
import { upstreamPlacesTaken } from "../../src/services/Metrics.ts"
import { Planes } from "../../src/services/Planes.ts"
import { Sessions } from "../../src/services/Sessions.ts"
import { Settings } from "../../src/services/Settings.ts"
import { PlaceBounds, UpstreamPlaces } from "../../src/services/UpstreamPlaces.ts"
import { authenticate, loggedIn, login, loginAs } from "../support/Logins.ts"
import { prepared, settle } from "../support/Sending.ts"
import { testSettings } from "../support/Settings.ts"
import { SimulatedIam } from "../support/SimulatedIam.ts"
import { callerKey, inRequest, production, withUseCases } from "../support/UseCaseLayers.ts"

const bounds = (iam: number, ting = 1, perCredential = 100, perAddress = 100) =>
  Effect.provideService(PlaceBounds, {
    iam: { all: iam, perCredential, perAddress },
    ting: { all: ting, perCredential, perAddress }
  })

const places = (rateLimit = true) =>
  Effect.provide(Layer.provide(UpstreamPlaces.Default, Layer.succeed(Settings, testSettings({ rateLimit }))))

/** A caller that waits in a place until it is interrupted or released. */
const waiting = (dependency: "iam" | "ting", credential: string) =>
  Effect.gen(function* () {
    const { within } = yield* UpstreamPlaces
    const released = yield* Deferred.make<void, string>()
    const fiber = yield* Effect.fork(Deferred.await(released).pipe(within(dependency, credential)))
    yield* settle
    return { fiber, released }
  })

/** The code of the refusal; none when a place was free. */
const attempt = (dependency: "iam" | "ting", credential = "another") =>
  Effect.flatMap(UpstreamPlaces, ({ within }) =>
    Effect.match(Effect.void.pipe(within(dependency, credential)), {
      onSuccess: () => undefined,
      onFailure: ({ code, details, retryAfterSeconds }) => [code, details?.dependency, retryAfterSeconds]
    })
  )

const full = (dependency: "iam" | "ting") => ["overloaded", dependency, 1]

describe("places for an upstream", () => {
  it.effect("are refused at once when all are taken, and other upstreams keep theirs", () =>
    Effect.gen(function* () {
      const { fiber } = yield* waiting("iam", "a")
      yield* waiting("iam", "b")
      deepStrictEqual(yield* attempt("iam"), full("iam"))
      deepStrictEqual(yield* attempt("ting"), undefined)
      yield* Fiber.interrupt(fiber)
      deepStrictEqual(yield* attempt("iam"), undefined)
    }).pipe(places(), bounds(2))
  )

  it.effect("are released at every end: an answer, a failure, an interruption", () =>
    Effect.gen(function* () {
      for (const end of [
        (one: { readonly released: Deferred.Deferred<void, string> }) =>
          Deferred.succeed(one.released, undefined),
        (one: { readonly released: Deferred.Deferred<void, string> }) =>
          Deferred.fail(one.released, "failed"),
        (one: { readonly fiber: Fiber.RuntimeFiber<void, unknown> }) => Fiber.interrupt(one.fiber)
      ]) {
        const one = yield* waiting("ting", "a")
        deepStrictEqual(yield* attempt("ting"), full("ting"))
        yield* end(one)
        yield* Fiber.await(one.fiber)
        deepStrictEqual(yield* attempt("ting"), undefined)
        deepStrictEqual(yield* attempt("ting", "a"), undefined)
      }
    }).pipe(places(), bounds(1))
  )

  it.effect("are limited per credential", () =>
    Effect.gen(function* () {
      yield* waiting("iam", "a")
      yield* waiting("iam", "a")
      deepStrictEqual(yield* attempt("iam", "a"), full("iam"))
      deepStrictEqual(yield* attempt("iam", "b"), undefined)
    }).pipe(places(), bounds(10, 10, 2))
  )

  it.effect("count the calls with one short-lived, refresh or access token", () =>
    withUseCases(
      Effect.gen(function* () {
        const { iam, session } = yield* loggedIn
        const sessions = yield* Sessions
        const slt = yield* iam.slt({ actor: "c:ana" })
        const refreshToken = Redacted.make(session.refresh_token)
        const token = refreshToken
        let keys = 0
        const freshKey = () => {
          keys += 1
          return callerKey(`place-${keys}`)
        }
        for (const [method, ask] of [
          ["exchange", () => login(slt, freshKey())],
          ["introspect", () => authenticate(session.access_token)],
          [
            "refresh",
            () => sessions.refresh(production, { refreshToken, key: freshKey() }).pipe(inRequest())
          ],
          ["revoke", () => sessions.logout(production, { token, key: freshKey() }).pipe(inRequest())]
        ] as const) {
          const held = yield* iam.hold(method)
          const first = yield* Effect.fork(Effect.exit<unknown, unknown, Sessions>(ask()))
          yield* held.arrived
          deepStrictEqual(
            [method, (yield* Effect.flip<unknown, { readonly code: string }, Sessions>(ask())).code],
            [method, "overloaded"]
          )
          yield* held.release
          yield* Fiber.join(first)
        }
      })
    ).pipe(bounds(10, 10, 1))
  )

  const here = inRequest({ clientNetwork: "192.0.2.1" })
  const elsewhere = inRequest({ clientNetwork: "192.0.2.2" })

  it.effect("are limited per client address, whatever the credentials", () =>
    Effect.gen(function* () {
      const { fiber } = yield* waiting("iam", "a").pipe(here)
      yield* waiting("iam", "b").pipe(here)
      deepStrictEqual(yield* attempt("iam", "c").pipe(here), full("iam"))
      deepStrictEqual(yield* attempt("ting", "c").pipe(here), undefined)
      deepStrictEqual(yield* attempt("iam", "a").pipe(elsewhere), undefined)
      yield* Fiber.interrupt(fiber)
      deepStrictEqual(yield* attempt("iam", "c").pipe(here), undefined)
    }).pipe(places(), bounds(10, 10, 10, 2))
  )

  it.effect("are not limited per address with MUSIC_RATE_LIMIT=off, nor without a request", () =>
    Effect.gen(function* () {
      const third = Effect.gen(function* () {
        yield* waiting("iam", "a")
        yield* waiting("iam", "b")
        return yield* attempt("iam", "c")
      })
      deepStrictEqual(yield* third.pipe(here, places(false)), undefined)
      deepStrictEqual(yield* third.pipe(places()), undefined)
    }).pipe(bounds(10, 10, 10, 2))
  )

  it.effect("are reported by upstream while they are taken", () =>
    Effect.gen(function* () {
      const taken = Effect.map(
        Effect.all([
          Metric.value(upstreamPlacesTaken({ dependency: "iam" })),
          Metric.value(upstreamPlacesTaken({ dependency: "ting" }))
        ]),
        (states) => states.map(({ value }) => value)
      )
      const { fiber } = yield* waiting("iam", "a")
      yield* waiting("iam", "b")
      deepStrictEqual(yield* taken, [2, 0])
      yield* Fiber.interrupt(fiber)
      deepStrictEqual(yield* taken, [1, 0])
    }).pipe(places(), bounds(5, 5))
  )

  it.effect("leave 400 of the requests in flight to requests that wait for no upstream", function* () {
    deepStrictEqual(defaultBound, 1_000)
    deepStrictEqual(yield* PlaceBounds, {
      iam: { all: 400, perCredential: 40, perAddress: 100 },
      ting: { all: 200, perCredential: 20, perAddress: 50 }
    })
  })
})

describe("a call that waits for IAM", () => {
  it.effect("takes one place for all of its work, so that it is never refused in the middle", () =>
    withUseCases(
      Effect.gen(function* () {
        const iam = yield* SimulatedIam
        const held = yield* iam.hold("introspect")
        const slt = yield* iam.slt({ actor: "c:ana" })
        const first = yield* Effect.fork(login(slt))
        yield* held.arrived
        const refused = yield* Effect.flip(loginAs({}, callerKey("second")))
        assert.strictEqual(refused.code, "overloaded")
        yield* held.release
        assert.strictEqual((yield* Fiber.join(first)).actor.public_id, "c:ana")
      })
    ).pipe(bounds(1))
  )

  it.effect("is refused before anything is spent", () =>
    withUseCases(
      Effect.gen(function* () {
        const { iam, session } = yield* loggedIn
        const spent = yield* iam.calls("exchange")
        const held = yield* iam.hold("introspect")
        const introspection = yield* Effect.fork(authenticate(session.access_token))
        yield* held.arrived
        const refused = yield* Effect.flip(loginAs({}, callerKey("second")))
        deepStrictEqual([refused.code, refused.details?.dependency], ["overloaded", "iam"])
        assert.strictEqual(yield* iam.calls("exchange"), spent)
        yield* held.release
        yield* Fiber.join(introspection)
        yield* loginAs({}, callerKey("second"))
      })
    ).pipe(bounds(1))
  )

  it.effect("takes its own place when it joins an execution in flight", () =>
    withUseCases(
      Effect.gen(function* () {
        const iam = yield* SimulatedIam
        const held = yield* iam.hold("introspect")
        const slt = yield* iam.slt({ actor: "c:ana" })
        const logins = yield* Effect.forEach([1, 2], () => Effect.fork(login(slt)))
        yield* held.arrived
        yield* settle
        assert.strictEqual((yield* Effect.flip(login(slt))).code, "overloaded")
        yield* held.release
        for (const login of logins) yield* Fiber.join(login)
        assert.strictEqual(yield* iam.calls("exchange"), 1)
      })
    ).pipe(bounds(2))
  )
})

describe("a testing secret that IAM resolves", () => {
  it.effect("takes a place, from a limited part of the places", () =>
    withUseCases(
      Effect.gen(function* () {
        const iam = yield* SimulatedIam
        const planes = yield* Planes
        const one = yield* iam.environment("one")
        const other = yield* iam.environment("other")
        const held = yield* iam.hold("resolvePlane")
        const first = yield* Effect.fork(planes.resolve(Option.some(one.secret)))
        yield* held.arrived
        deepStrictEqual((yield* Effect.flip(planes.resolve(Option.some(one.secret)))).code, "overloaded")
        deepStrictEqual(yield* planes.resolve(Option.some(other.secret)), other.plane)
        yield* held.release
        deepStrictEqual(yield* Fiber.join(first), one.plane)
      })
    ).pipe(bounds(10, 10, 1))
  )
})

describe("a call that waits for Ting", () => {
  it.effect("takes one place for the proof and the ting: without one no proof is requested", () =>
    withUseCases(
      Effect.gen(function* () {
        const { iam, ting, proofs, send, sends } = yield* prepared()
        const held = yield* ting.hold("send")
        const first = yield* Effect.fork(send({ key: "si:deejay/1" }))
        yield* held.arrived
        const refused = yield* Effect.flip(send({ key: "si:deejay/2" }))
        deepStrictEqual([refused.code, refused.details?.dependency], ["overloaded", "ting"])
        assert.strictEqual(yield* iam.calls("prove"), proofs + 1)
        yield* held.release
        yield* Fiber.join(first)
        assert.isFalse((yield* send({ key: "si:deejay/2" })).replayed)
        assert.strictEqual((yield* sends).length, 2)
      })
    ).pipe(bounds(1, 1))
  )
})
