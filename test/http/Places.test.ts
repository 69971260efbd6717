/** An upstream that hangs must not delay requests that do not wait for it. */
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import * as TestServices from "effect/TestServices"
import { production } from "../../sandbox/upstreams/Iam.ts"
import { upstreamPlacesTaken } from "../../src/services/Metrics.ts"
import { PlaceBounds } from "../../src/services/UpstreamPlaces.ts"
import { asks, freshKey, serverOverIam } from "../support/RealIam.ts"
import { type Answer, errorOf, good, jsonHeaders } from "./support.ts"
import { until } from "../support/Waiting.ts"

const bounded = (iam: number, ting: number, perCredential = 100, perAddress = 100) =>
  Effect.provideService(PlaceBounds, {
    iam: { all: iam, perCredential, perAddress },
    ting: { all: ting, perCredential, perAddress }
  })

/** The bound of requests in flight: above the bound of those that wait for IAM, and below the number of waiting requests. */
const inFlight = 5

/** Advances the test's clock while real sockets are waited for. */
const advanceClock = Effect.forever(
  Effect.zipRight(TestClock.adjust("1 seconds"), TestServices.provideLive(Effect.sleep("5 millis")))
)

const readRefusal = (answer: Answer) => {
  const { code, details } = errorOf(answer)
  return [answer.status, code, answer.headers["retry-after"], details]
}
const full = (dependency: string) => [503, "overloaded", "1", { dependency }]

const report = (token?: string) => ({
  method: "POST",
  path: "/api/v1/reports",
  headers: {
    ...jsonHeaders,
    "idempotency-key": freshKey(),
    ...(token === undefined ? {} : asks.me(token).headers)
  },
  body: JSON.stringify({ message: "Playback stops after a seek." })
})

const ting = (token: string, key: string) => ({
  method: "POST",
  path: "/api/v1/tings",
  headers: { ...jsonHeaders, ...asks.me(token).headers },
  body: JSON.stringify({ type: "music.trigger.fired", key: `si:deejay/${key}`, data: {} })
})

const introspect = "/api/v1/oauth/introspect"
const everything = Number.POSITIVE_INFINITY

const taken = (dependency: "iam" | "ting", places: number) =>
  until(() => upstreamPlacesTaken({ dependency }).unsafeValue([]).value === places)

const prepareWith = Effect.fnUntraced(function* (rateLimit: boolean) {
  const server = yield* serverOverIam({ inFlight }, { rateLimit, shutdownGraceSeconds: 0 })
  server.ting.registerType("production", "music", "music.trigger.fired")
  const ask = server.from("203.0.113.1")
  const login = Effect.suspend(() =>
    Effect.map(ask(asks.login(Redacted.value(server.slt()))), (answer) => {
      const session: unknown = JSON.parse(answer.text)
      expect(session).toMatchObject({ access_token: expect.any(String) })
      // The assertion above checked the shape.
      return session as {
        readonly access_token: string
        readonly refresh_token: string
        readonly ting: unknown
      }
    })
  )
  return { ...server, ask, login }
})
const prepare = prepareWith(false)

describe("While IAM hangs", () => {
  it.scoped("calls beyond the IAM places are refused at once, and calls that need none are served", () =>
    Effect.gen(function* () {
      const { ask, environment, login, simulator, slt, world } = yield* prepare
      const sessions = yield* Effect.replicateEffect(login, 4)
      const { access_token, refresh_token } = yield* login
      simulator.fail({ path: introspect, times: everything, fault: { kind: "hang" } })
      const waiting = yield* Effect.forEach(sessions, (session) =>
        Effect.fork(ask(asks.me(session.access_token)))
      )
      yield* taken("iam", 4)

      // Hanging introspections may still be on their way.
      const others = () => simulator.seen.filter(({ path }) => path !== introspect).length
      const before = others()
      for (const sent of [
        asks.me(access_token),
        asks.login(Redacted.value(slt())),
        asks.refresh(refresh_token),
        asks.logout(refresh_token),
        asks.testing(environment.musicSecret),
        ting(access_token, "1")
      ])
        expect([sent.path, ...readRefusal(yield* ask(sent))]).toEqual([sent.path, ...full("iam")])
      expect(others()).toBe(before)
      expect((yield* ask(good.healthz)).status).toBe(200)
      expect((yield* ask(good.version)).status).toBe(200)
      expect((yield* ask(good.accept)).status).toBe(204)
      expect((yield* ask(report())).status).toBe(200)
      const { body, headers } = world.buildWebhook(
        production,
        world.events.membershipRemoved(production, "si:lyra", "acme")
      )
      expect((yield* ask({ method: "POST", path: "/webhook/", headers, body })).status).toBe(200)
      // Without a place the reporter is not verified, as in any outage.
      const sent = report(access_token)
      const signed = yield* ask(sent)
      expect(JSON.parse(signed.text)).toMatchObject({ status: "stored", reporter: null, replayed: false })

      yield* Effect.raceFirst(Effect.forEach(waiting, Fiber.await), advanceClock)
      for (const fiber of waiting)
        expect(errorOf(yield* Fiber.join(fiber)).code).toBe("dependency_unavailable")
      simulator.clearFaults()
      expect((yield* ask(asks.me(access_token))).status).toBe(200)
      expect(JSON.parse((yield* ask(sent)).text)).toMatchObject({ reporter: "si:deejay", replayed: true })
      // The refusal spent nothing.
      expect((yield* ask(asks.refresh(refresh_token))).status).toBe(200)
    }).pipe(bounded(4, 2))
  )
})

describe("While IAM's revocation hangs", () => {
  it.scoped("made-up tokens from one address leave places to other addresses", () =>
    Effect.gen(function* () {
      const { ask, from, login, simulator, slt } = yield* prepareWith(true)
      const { access_token } = yield* login
      simulator.fail({ path: "/api/v1/oauth/revoke", times: everything, fault: { kind: "hang" } })
      const stranger = from("198.51.100.7")
      const logout = (letter: string) => stranger(asks.logout(`ort_${letter.repeat(43)}`))
      const waiting = yield* Effect.forEach(["A", "B"], (letter) => Effect.fork(logout(letter)))
      yield* taken("iam", 2)
      expect(readRefusal(yield* logout("C"))).toEqual(full("iam"))
      expect((yield* ask(asks.me(access_token))).status).toBe(200)
      expect((yield* ask(asks.login(Redacted.value(slt())))).status).toBe(200)
      yield* Effect.raceFirst(Effect.forEach(waiting, Fiber.await), advanceClock)
      for (const fiber of waiting)
        expect(errorOf(yield* Fiber.join(fiber)).code).toBe("dependency_unavailable")
    }).pipe(bounded(3, 2, 2, 2))
  )
})

describe("While Ting hangs", () => {
  it.scoped("tings beyond the Ting places are refused at once, and calls to IAM are served", () =>
    Effect.gen(function* () {
      const { ask, asked, login, slt, ting: notifications } = yield* prepare
      const { access_token, refresh_token } = yield* login
      notifications.fail({ times: everything, fault: { kind: "hang" } })
      const waiting = yield* Effect.forEach(["1", "2"], (key) => Effect.fork(ask(ting(access_token, key))))
      yield* taken("ting", 2)

      const proofs = () => asked("/obo-access/exchanges").length
      yield* until(() => proofs() === 3)
      expect(readRefusal(yield* ask(ting(access_token, "3")))).toEqual(full("ting"))
      const subscription = {
        ...good.subscribe,
        headers: { ...jsonHeaders, ...asks.me(access_token).headers }
      }
      expect(readRefusal(yield* ask(subscription))).toEqual(full("ting"))
      expect(proofs()).toBe(3)
      expect((yield* ask(asks.me(access_token))).status).toBe(200)
      expect((yield* ask(asks.refresh(refresh_token))).status).toBe(200)
      const sent = asks.login(Redacted.value(slt()))
      expect(JSON.parse((yield* ask(sent)).text)).toMatchObject({
        ting: { subscribed: false, error: "overloaded" }
      })

      yield* Effect.raceFirst(Effect.forEach(waiting, Fiber.await), advanceClock)
      for (const fiber of waiting)
        expect(errorOf(yield* Fiber.join(fiber)).code).toBe("dependency_unavailable")
      notifications.clearFaults()
      // A retry of the login under its key registers, and the refused ting is sent.
      expect(JSON.parse((yield* ask(sent)).text)).toMatchObject({ ting: { subscribed: true } })
      expect((yield* ask(ting((yield* login).access_token, "3"))).status).toBe(200)
    }).pipe(bounded(4, 2))
  )
})
