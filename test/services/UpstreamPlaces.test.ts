/** The places of requests that wait for IAM or Ting. */
import { Deferred, Effect, Fiber, Layer, Metric, Option, Redacted } from "effect"
import { describe, expect } from "vitest"
import type { Failure } from "../../src/schema/Failure.ts"
import { upstreamPlacesTaken } from "../../src/services/Metrics.ts"
import { Sessions } from "../../src/services/usecases/Sessions.ts"
import { Settings } from "../../src/services/Settings.ts"
import { PlaceBounds, UpstreamPlaces } from "../../src/services/combinators/UpstreamPlaces.ts"
import { authenticate, loggedIn, login, loginAs } from "../world/Logins.ts"
import { prepared, settle } from "../world/Sending.ts"
import { testSettings } from "../world/Settings.ts"
import type { IamMethod } from "../world/SimulatedIam.ts"
import { callerKey, inRequest, production, type scenario, withUseCases } from "../world/UseCaseLayers.ts"
import { it, toEffect } from "../world/Test.ts"

const bounds = (iam: number, ting = 1, perCredential = 100, perAddress = 100) =>
  Effect.provideService(PlaceBounds, {
    iam: { all: iam, perCredential, perAddress },
    ting: { all: ting, perCredential, perAddress }
  })
const places = (rateLimit = true) =>
  Effect.provide(Layer.provide(UpstreamPlaces.Default, Layer.succeed(Settings, testSettings({ rateLimit }))))
const atAddress = (end: number) => inRequest({ clientNetwork: `192.0.2.${end}` })

/** A caller that waits in a place until it is interrupted or released. */
const waiting = (dependency: "iam" | "ting", credential: string) =>
  Effect.gen(function* () {
    const { within } = yield* UpstreamPlaces
    const released = yield* Deferred.make<void, string>()
    const fiber = yield* Effect.fork(Deferred.await(released).pipe(within(dependency, credential)))
    yield* settle
    return { fiber, released }
  })
/** `free`, or the refusal. */
const attempt = (dependency: "iam" | "ting", credential = "another") =>
  Effect.flatMap(UpstreamPlaces, ({ within }) =>
    Effect.match(Effect.void.pipe(within(dependency, credential)), {
      onSuccess: () => "free",
      onFailure: ({ code, details, retryAfterSeconds }) =>
        `${code} ${details?.dependency} ${retryAfterSeconds}`
    })
  )

describe("places for an upstream", () => {
  const ends: ReadonlyArray<
    (one: Effect.Effect.Success<ReturnType<typeof waiting>>) => Effect.Effect<unknown>
  > = [
    ({ released }) => Deferred.succeed(released, undefined),
    ({ released }) => Deferred.fail(released, "failed"),
    ({ fiber }) => Fiber.interrupt(fiber)
  ]
  it.effect("are refused at once when all are taken, and free again at every end; a metric counts them", () =>
    Effect.forEach(ends, (end) =>
      Effect.gen(function* () {
        const taken = Effect.forEach(["iam", "ting"], (dependency) =>
          Effect.map(Metric.value(upstreamPlacesTaken({ dependency })), ({ value }) => value)
        )
        const one = yield* waiting("ting", "a")
        expect([yield* attempt("ting"), yield* attempt("iam")]).toEqual(["overloaded ting 1", "free"])
        expect(yield* taken).toEqual([0, 1])
        yield* end(one)
        yield* Fiber.await(one.fiber)
        expect([yield* attempt("ting", "a"), yield* taken]).toEqual(["free", [0, 0]])
      })
    ).pipe(places(), bounds(1))
  )

  it.effect("are limited for each credential, and for each address whatever the credentials", () =>
    Effect.gen(function* () {
      const { fiber } = yield* waiting("iam", "a").pipe(atAddress(1))
      yield* waiting("iam", "b").pipe(atAddress(1))
      expect(yield* attempt("iam", "c").pipe(atAddress(1))).toBe("overloaded iam 1")
      expect(yield* attempt("ting", "c").pipe(atAddress(1))).toBe("free")
      expect(yield* attempt("iam", "c").pipe(atAddress(2))).toBe("free")
      yield* waiting("iam", "a").pipe(atAddress(2))
      expect(yield* attempt("iam", "a").pipe(atAddress(3))).toBe("overloaded iam 1")
      yield* Fiber.interrupt(fiber)
      for (const credential of ["a", "c"])
        expect(yield* attempt("iam", credential).pipe(atAddress(1))).toBe("free")
      // Not without limits of addresses.
      const third = Effect.zipRight(Effect.zip(waiting("iam", "a"), waiting("iam", "b")), attempt("iam", "c"))
      expect(yield* third.pipe(atAddress(1), places(false))).toBe("free")
    }).pipe(places(), bounds(10, 10, 2, 2))
  )

  it.effect("leave 400 of the 1,000 requests in flight to requests that wait for no upstream", function* () {
    expect(yield* PlaceBounds).toEqual({
      iam: { all: 400, perCredential: 40, perAddress: 100 },
      ting: { all: 200, perCredential: 20, perAddress: 50 }
    })
  })
})

const placeTest = (name: string, given: Parameters<typeof bounds>, body: Parameters<typeof scenario>[1]) =>
  it.effect(name, () => withUseCases(toEffect(body)()).pipe(bounds(...given)))

describe("a use case", () => {
  placeTest("a login has one place for all of its work, and without one nothing is spent", [1], function* () {
    const { iam } = yield* loggedIn
    const held = yield* iam.hold("introspect")
    const first = yield* Effect.fork(login(yield* iam.slt({ actor: "c:ana" }), callerKey("first")))
    yield* held.arrived
    const spent = yield* iam.calls("exchange")
    const { code, details } = yield* Effect.flip(loginAs({}, callerKey("second")))
    expect([code, details?.dependency, yield* iam.calls("exchange")]).toEqual(["overloaded", "iam", spent])
    yield* held.release
    expect((yield* Fiber.join(first)).actor.public_id).toBe("c:ana")
    yield* loginAs({}, callerKey("second"))
  })

  placeTest("a call counts for its token or testing secret", [10, 10, 1], function* () {
    const { send, subscribe } = yield* prepared()
    const { iam, session } = yield* loggedIn
    const sessions = yield* Sessions
    const slt = yield* iam.slt({ actor: "c:ana" })
    const { secret } = yield* iam.environment("one")
    const token = Redacted.make(session.refresh_token)
    let keys = 0
    const request = () => ({ token, key: callerKey(`place-${++keys}`) })
    const asks: ReadonlyArray<readonly [IamMethod, () => Effect.Effect<unknown, Failure, Sessions>]> = [
      // A ting waits in one place for its proof and for itself.
      ["prove", send],
      ["prove", () => subscribe],
      ["exchange", () => login(slt, request().key)],
      ["introspect", () => authenticate(session.access_token)],
      ["refresh", () => sessions.refresh(production, request()).pipe(inRequest())],
      ["revoke", () => sessions.logout(production, request()).pipe(inRequest())],
      ["resolvePlane", () => sessions.resolvePlane(Option.some(secret))]
    ]
    for (const [method, ask] of asks) {
      const held = yield* iam.hold(method)
      const first = yield* Effect.fork(Effect.exit(ask()))
      yield* held.arrived
      const { code, details } = yield* Effect.flip(ask())
      const dependency = method === "prove" ? "ting" : "iam"
      expect([method, code, details?.dependency]).toEqual([method, "overloaded", dependency])
      const other = yield* iam.environment(`${method}-${++keys}`)
      expect(yield* sessions.resolvePlane(Option.some(other.secret))).toEqual(other.plane)
      yield* held.release
      yield* Fiber.join(first)
    }
  })
})
