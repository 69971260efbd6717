/** An upstream that hangs does not delay requests that do not wait for it. */
import { describe, expect } from "vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/TestClock"
import { production } from "../../sandbox/upstreams/Iam.ts"
import { upstreamPlacesTaken } from "../../src/services/Metrics.ts"
import { PlaceBounds } from "../../src/services/UpstreamPlaces.ts"
import { until } from "../support/Waiting.ts"
import type { Answer } from "../world/Driver.ts"
import { it } from "../world/Test.ts"
import {
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
    const expectFull = (dependency: string, sent: Sent) =>
      Effect.map(server.send(sent), (answer) => {
        const found = [sent.path, outcomeOf(answer), answer.headers["retry-after"], errorOf(answer).details]
        expect(found).toEqual([sent.path, "overloaded", "1", { dependency }])
      })
    /** Lets them time out. */
    const end = (waiting: ReadonlyArray<Fiber.Fiber<Answer>>) =>
      Effect.gen(function* () {
        yield* TestClock.adjust("60 seconds")
        const answers = yield* Effect.forEach(waiting, Fiber.join)
        expect(answers.map(outcomeOf)).toEqual(waiting.map(() => "dependency_unavailable"))
        server.upstreams.clearFaults()
      })
    return { ...server, end, expectFull, occupy, outcome, slt }
  })

describe("While an upstream hangs", () => {
  it.scoped("calls beyond IAM's places are refused at once, and calls that need none are served", () =>
    Effect.gen(function* () {
      const server = yield* prepare()
      const { expectFull, login, outcome, send, upstreams } = server
      const good = yield* goodRequests(server)
      const sessions = yield* Effect.replicateEffect(login(), 4)
      const { access_token, refresh_token } = yield* login()
      upstreams.fail({ path: paths.introspect, fault: hang })
      const asking = sessions.map((session) => requests.me(session.access_token))
      const waiting = yield* server.occupy("iam", asking)
      const before = upstreams.seen.length
      for (const sent of [
        requests.me(access_token),
        requests.login(server.slt()),
        requests.refresh(refresh_token),
        requests.logout(refresh_token),
        requests.testing(upstreams.seeded.environment.musicSecret),
        requests.send(access_token)
      ])
        yield* expectFull("iam", sent)
      expect(upstreams.seen.length).toBe(before)
      for (const sent of [good.healthz, good.version, good.submit, good.receive])
        expect([sent.path, yield* outcome(sent)]).toEqual([sent.path, 200])
      // Without a place the reporter is not verified, as in any outage.
      const report = withHeaders(requests.me(access_token).headers)(requests.report())
      expect(json(yield* send(report))).toMatchObject({ reporter: null, replayed: false })
      yield* server.end(waiting)
      expect(yield* outcome(requests.me(access_token))).toBe(200)
      expect(json(yield* send(report))).toMatchObject({ reporter: "si:deejay", replayed: true })
      // The refusal spent nothing.
      expect(yield* outcome(requests.refresh(refresh_token))).toBe(200)
    }).pipe(bounded(4, 2))
  )

  it.scoped("made-up tokens from one address leave places to other addresses", () =>
    Effect.gen(function* () {
      const { end, expectFull, login, occupy, outcome, slt, upstreams } = yield* prepare(true)
      const { access_token } = yield* login()
      upstreams.fail({ path: paths.revoke, fault: hang })
      const [third, ...first] = ["C", "A", "B"].map((letter) => ({
        ...requests.logout(`ort_${letter.repeat(43)}`),
        from: "198.51.100.7"
      }))
      const waiting = yield* occupy("iam", first)
      if (third !== undefined) yield* expectFull("iam", third)
      expect(yield* outcome(requests.me(access_token))).toBe(200)
      expect(yield* outcome(requests.login(slt()))).toBe(200)
      yield* end(waiting)
    }).pipe(bounded(3, 2, 2, 2))
  )
})
