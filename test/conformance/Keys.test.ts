import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { type Exchange, expectJson, textOf } from "../../sandbox/HttpExchange.ts"
import { mintSlt } from "../../sandbox/SimulatedUpstreams.ts"
import { startTestSandbox } from "../support/Sandbox.ts"
import { calls, codeOf, keyed } from "./Calls.ts"

/** A key that two callers choose. */
const weak = { "idempotency-key": "0000000000000001" }
const day = 86_400_000

/** A conflict with a hint, and without a secret of the other caller. */
const expectConflict = (exchange: Exchange, secrets: ReadonlyArray<string> = []) => {
  expect([exchange.status, codeOf(exchange)]).toEqual([409, "idempotency_conflict"])
  expect(exchange.text).toContain("Use a new key")
  for (const secret of secrets) expect(exchange.text).not.toContain(secret)
}

const started = Effect.map(startTestSandbox, (sandbox) => {
  const api = calls(sandbox)
  const live = (headers: Readonly<Record<string, string>>) =>
    Effect.map(api.get("/api/v1/auth/me", headers), ({ status }) => status === 200)
  return { ...sandbox, ...api, live, sltOf: (actor: string) => mintSlt(sandbox.world, actor) }
})

describe("Two callers with the same idempotency key", () => {
  it.scopedLive(
    "log in: the second gets a conflict, which spends nothing and returns no data of the first",
    function* () {
      const { login, post, sltOf } = yield* started
      const first = sltOf("si:deejay")
      const second = sltOf("c:ana")
      const deejay = yield* login(weak, first)
      const secrets = [deejay.accessToken, deejay.refreshToken, "si:deejay"]
      expectConflict(yield* post("/api/v1/auth/login", { slt: second }, weak), secrets)
      expectConflict(yield* post("/api/v1/auth/login", { slt: "oac_unknown" }, weak), secrets)

      const ana = yield* login({}, second)
      expect(ana.session.actor).toMatchObject({ public_id: "c:ana" })
      expect((yield* login(weak, first)).accessToken).toBe(deejay.accessToken)
    }
  )

  it.scopedLive(
    "refresh and log out: the second gets a conflict, which ends nothing, and succeeds under another key",
    function* () {
      const { live, login, post, sltOf } = yield* started
      const deejay = yield* login({}, sltOf("si:deejay"))
      const ana = yield* login({}, sltOf("c:ana"))
      const refresh = (refresh_token: string, headers: Readonly<Record<string, string>>) =>
        post("/api/v1/auth/refresh", { refresh_token }, headers)
      const fresh = yield* expectJson(yield* refresh(deejay.refreshToken, weak), 200)
      const secrets = [yield* textOf(fresh, "access_token")]
      expectConflict(yield* refresh(ana.refreshToken, weak), secrets)
      expect(yield* live(ana.signed)).toBe(true)
      const renewed = yield* expectJson(yield* refresh(ana.refreshToken, keyed()), 200)
      const again = yield* expectJson(yield* refresh(deejay.refreshToken, weak), 200)
      expect(again.access_token).toBe(fresh.access_token)

      const logout = (token: string, headers: Readonly<Record<string, string>>) =>
        post("/api/v1/auth/logout", { token }, headers)
      expect((yield* logout(yield* textOf(fresh, "refresh_token"), weak)).status).toBe(204)
      const token = yield* textOf(renewed, "refresh_token")
      expectConflict(yield* logout(token, weak))
      expect([yield* live(deejay.signed), yield* live(ana.signed)]).toEqual([false, true])
      expect((yield* logout(token, keyed())).status).toBe(204)
      expect(yield* live(ana.signed)).toBe(false)
    }
  )

  it.scopedLive("use it a day apart: the second gets its own outcome, also on a retry", function* () {
    const { clock, login, sltOf } = yield* started
    const deejay = yield* login(weak, sltOf("si:deejay"))
    // From here on IAM treats the key as new (identity-service.md 4).
    clock.advance(day + 1_000)
    const slt = sltOf("c:ana")
    const ana = yield* login(weak, slt)
    expect(ana.session.ting).toMatchObject({ subscribed: true })
    expect(ana.session.ting).not.toEqual(deejay.session.ting)
    const again = yield* login(weak, slt)
    expect([again.accessToken, again.session.ting]).toEqual([ana.accessToken, ana.session.ting])
  })
})
