import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { expectJson } from "../../sandbox/HttpExchange.ts"
import { iamFaults } from "../../sandbox/upstreams/Iam.ts"
import { type Fault, faults } from "../../sandbox/upstreams/Simulator.ts"
import { mintSlt } from "../../sandbox/SimulatedUpstreams.ts"
import { startTestSandbox } from "../support/Sandbox.ts"
import { calls, codeOf, keyed } from "./Calls.ts"

const tokens = "/api/v1/app-auth/tokens"
const introspect = "/api/v1/oauth/introspect"

describe("Uncertain outcomes, over real HTTP", () => {
  it.scopedLive("a login whose client leaves is done once, and told to the retry under its key", () =>
    Effect.gen(function* () {
      const sandbox = yield* startTestSandbox
      const { post } = calls(sandbox)
      const { iam, ting } = sandbox.world
      const slt = mintSlt(sandbox.world)
      const key = keyed()
      iam.fail({ path: tokens, fault: { kind: "delay", milliseconds: 200 } })
      yield* post("/api/v1/auth/login", { slt }, key).pipe(Effect.timeoutOption("60 millis"))
      const told = yield* expectJson(yield* post("/api/v1/auth/login", { slt }, key), 200)
      expect(told.ting).toMatchObject({ subscribed: true })
      expect(iam.seen.filter(({ path }) => path === tokens)).toHaveLength(1)
      expect(ting.seen.filter(({ path }) => path === "/v1/subscriptions")).toHaveLength(1)
    })
  )

  it.scopedLive("a signed report outlives every way in which IAM can fail, and takes its name later", () =>
    Effect.gen(function* () {
      const sandbox = yield* startTestSandbox
      const { login, post } = calls(sandbox)
      const { signed } = yield* login()
      const outages: ReadonlyArray<Fault> = [
        iamFaults.rateLimited(1),
        iamFaults.internalError(),
        faults.html(),
        faults.redirect(),
        faults.notJson(),
        { kind: "drop" }
      ]
      for (const [index, fault] of outages.entries()) {
        const headers = { ...keyed(), ...signed }
        const body = { message: `The player stops after a seek, ${index}.` }
        sandbox.world.iam.fail({ path: introspect, fault })
        const first = yield* expectJson(yield* post("/api/v1/reports", body, headers), 200)
        // IAM said how long it is to be left alone.
        sandbox.clock.advance(1_000)
        const second = yield* expectJson(yield* post("/api/v1/reports", body, headers), 200)
        expect([first.reporter, first.replayed]).toEqual([null, false])
        expect([second.id, second.reporter, second.replayed]).toEqual([first.id, "si:deejay", true])
      }
    })
  )

  it.scopedLive("no token is spent while introspection is inside a remembered 429", () =>
    Effect.gen(function* () {
      const sandbox = yield* startTestSandbox
      const { get, login, post } = calls(sandbox)
      const { iam } = sandbox.world
      const { signed, refreshToken } = yield* login()
      iam.fail({ path: introspect, fault: iamFaults.rateLimited(3) })
      expect(codeOf(yield* get("/api/v1/auth/me", signed))).toBe("rate_limited")
      const spent = iam.seen.filter(({ path }) => path === tokens).length
      for (const [path, body] of [
        ["/api/v1/auth/login", { slt: mintSlt(sandbox.world) }],
        ["/api/v1/auth/refresh", { refresh_token: refreshToken }]
      ] as const) {
        const refused = yield* post(path, body, keyed())
        expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "3"])
      }
      expect(iam.seen.filter(({ path }) => path === tokens)).toHaveLength(spent)
    })
  )
})
