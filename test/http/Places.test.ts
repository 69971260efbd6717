/** An upstream that hangs does not delay requests that do not wait for it. */
import { describe, expect } from "vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/TestClock"
import { production } from "../../sandbox/upstreams/Iam.ts"
import { upstreamPlacesTaken } from "../../src/services/Metrics.ts"
import { PlaceBounds } from "../../src/services/UpstreamPlaces.ts"
import { until } from "../support/Waiting.ts"
import { it } from "../world/Test.ts"
import {
  type Answer,
  errorOf,
  goodRequests,
  inMemory,
  json,
  outcomeOf,
  requests,
  type Sent,
  withHeaders
} from "./support.ts"
import { paths } from "./Upstreams.ts"

const bounded = (iam: number, ting: number, perCredential = 100, perAddress = 100) =>
  Effect.provideService(PlaceBounds, {
    iam: { all: iam, perCredential, perAddress },
    ting: { all: ting, perCredential, perAddress }
  })

const readRefusal = (answer: Answer) => {
  const { code, details } = errorOf(answer)
  return [answer.status, code, answer.headers["retry-after"], details]
}
const full = (dependency: string) => [503, "overloaded", "1", { dependency }]
const hang = { kind: "hang" } as const

const prepare = (rateLimit = false) =>
  Effect.gen(function* () {
    // The bound of requests in flight is above that of those that wait for IAM.
    const server = yield* inMemory({ inFlight: 5, settings: { rateLimit } })
    const { controls } = server.upstreams.iam
    const slt = () => controls.mintSlt(production, { appId: "music", actor: "si:deejay" })
    /** Sends requests that will wait, and returns when they hold places. */
    const occupy = (dependency: "iam" | "ting", sent: ReadonlyArray<Sent>) =>
      Effect.forEach(sent, (one) => Effect.fork(server.send(one))).pipe(
        Effect.zipLeft(until(() => upstreamPlacesTaken({ dependency }).unsafeValue([]).value === sent.length))
      )
    const outcome = (sent: Sent) => Effect.map(server.send(sent), outcomeOf)
    /** Lets them time out. */
    const end = (waiting: ReadonlyArray<Fiber.Fiber<Answer>>) =>
      Effect.gen(function* () {
        yield* TestClock.adjust("60 seconds")
        for (const fiber of waiting)
          expect(outcomeOf(yield* Fiber.join(fiber))).toBe("dependency_unavailable")
        server.upstreams.clearFaults()
      })
    return { ...server, end, occupy, outcome, slt }
  })

describe("While IAM hangs", () => {
  it.scoped("calls beyond its places are refused at once, and calls that need none are served", () =>
    Effect.gen(function* () {
      const { end, login, occupy, outcome, send, slt, upstreams, ...server } = yield* prepare()
      const good = yield* goodRequests({ login, upstreams })
      const sessions = yield* Effect.replicateEffect(login(), 4)
      const { access_token, refresh_token } = yield* login()
      upstreams.fail({ path: paths.introspect, fault: hang })
      const waiting = yield* occupy(
        "iam",
        sessions.map((session) => requests.me(session.access_token))
      )
      const before = upstreams.seen.length
      for (const sent of [
        requests.me(access_token),
        requests.login(slt()),
        requests.refresh(refresh_token),
        requests.logout(refresh_token),
        requests.testing(upstreams.seeded.environment.musicSecret),
        requests.send(access_token)
      ])
        expect([sent.path, ...readRefusal(yield* send(sent))]).toEqual([sent.path, ...full("iam")])
      expect(upstreams.seen.length).toBe(before)
      for (const sent of [good.healthz, good.version, good.submit, good.receive])
        expect([sent.path, yield* outcome(sent)]).toEqual([sent.path, 200])
      expect(yield* outcome(good.accept)).toBe(204)
      // Without a place the reporter is not verified, as in any outage.
      const report = withHeaders(requests.me(access_token).headers)(requests.report())
      expect(json(yield* send(report))).toMatchObject({ status: "stored", reporter: null, replayed: false })
      yield* end(waiting)
      expect(yield* outcome(requests.me(access_token))).toBe(200)
      expect(json(yield* send(report))).toMatchObject({ reporter: "si:deejay", replayed: true })
      // The refusal spent nothing.
      expect(yield* outcome(requests.refresh(refresh_token))).toBe(200)
      expect(server.lines.filter(({ level }) => level === "ERROR")).toEqual([])
    }).pipe(bounded(4, 2))
  )

  it.scoped("made-up tokens from one address leave places to other addresses", () =>
    Effect.gen(function* () {
      const { end, login, occupy, outcome, send, slt, upstreams } = yield* prepare(true)
      const { access_token } = yield* login()
      upstreams.fail({ path: paths.revoke, fault: hang })
      const logout = (letter: string) => ({
        ...requests.logout(`ort_${letter.repeat(43)}`),
        from: "198.51.100.7"
      })
      const waiting = yield* occupy("iam", [logout("A"), logout("B")])
      expect(readRefusal(yield* send(logout("C")))).toEqual(full("iam"))
      expect(yield* outcome(requests.me(access_token))).toBe(200)
      expect(yield* outcome(requests.login(slt()))).toBe(200)
      yield* end(waiting)
    }).pipe(bounded(3, 2, 2, 2))
  )
})

describe("While Ting hangs", () => {
  it.scoped("calls beyond its places are refused at once, and calls to IAM are served", () =>
    Effect.gen(function* () {
      const { end, login, occupy, outcome, send, slt, upstreams } = yield* prepare()
      const { subscribe } = yield* goodRequests({ login, upstreams })
      const { access_token, refresh_token } = yield* login()
      upstreams.seen.length = 0
      upstreams.fail({ path: "/v1/tings", fault: hang })
      upstreams.fail({ path: "/v1/subscriptions", fault: hang })
      const ting = (key: string) => requests.send(access_token, `si:deejay/${key}`)
      const waiting = yield* occupy("ting", [ting("1"), ting("2")])
      expect(readRefusal(yield* send(ting("3")))).toEqual(full("ting"))
      expect(readRefusal(yield* send(subscribe))).toEqual(full("ting"))
      expect(upstreams.asked(paths.proof)).toHaveLength(2)
      expect(yield* outcome(requests.me(access_token))).toBe(200)
      expect(yield* outcome(requests.refresh(refresh_token))).toBe(200)
      const later = requests.login(slt())
      expect(json(yield* send(later))).toMatchObject({ ting: { subscribed: false, error: "overloaded" } })
      yield* end(waiting)
      // A retry of the login under its key registers, and the refused ting is sent.
      expect(json(yield* send(later))).toMatchObject({ ting: { subscribed: true } })
      expect(yield* outcome(requests.send((yield* login()).access_token, "si:deejay/3"))).toBe(200)
    }).pipe(bounded(4, 2))
  )
})
