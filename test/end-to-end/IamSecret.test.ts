/** What the log says when IAM refuses the secret of the application. */
import { randomUUID } from "node:crypto"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { call, expectJson, textOf } from "../../sandbox/HttpExchange.ts"
import { mintSlt } from "../../sandbox/SimulatedUpstreams.ts"
import { production } from "../../sandbox/upstreams/Iam.ts"
import { faults } from "../../sandbox/upstreams/Simulator.ts"
import { startTestSandbox } from "../support/Sandbox.ts"
import { eventually } from "../support/Waiting.ts"

const started = Effect.gen(function* () {
  const { base, log, world } = yield* startTestSandbox
  const post = (path: string, body: unknown, headers: Readonly<Record<string, string>> = {}) =>
    Effect.map(
      call(`${base}/api/v1${path}`, {
        method: "POST",
        body,
        headers: { "idempotency-key": randomUUID(), ...headers }
      }),
      ({ status }) => status
    )
  const login = Effect.suspend(() => post("/auth/login", { slt: mintSlt(world) }))
  const exchange = yield* call(`${base}/api/v1/auth/login`, {
    method: "POST",
    body: { slt: mintSlt(world) },
    headers: { "idempotency-key": randomUUID() }
  })
  const session = yield* expectJson(exchange, 200)
  const refreshToken = yield* textOf(session, "refresh_token")
  const bearer = { authorization: `Bearer ${yield* textOf(session, "access_token")}`, "x-org-id": "acme" }
  const me = Effect.map(call(`${base}/api/v1/auth/me`, { headers: bearer }), ({ status }) => status)
  const ting = post("/tings", { type: "music.trigger.fired", key: "si:deejay/first", data: {} }, bearer)
  const calls = {
    login,
    me,
    refresh: post("/auth/refresh", { refresh_token: refreshToken }),
    logout: post("/auth/logout", { token: refreshToken }),
    ting
  }
  const refuse = (path: string, times: number) =>
    world.iam.fail({
      path,
      times,
      fault: faults.status(401, { error: { code: "invalid_client", message: "refused" } })
    })
  /** Level and message of the lines about the secret, in their order. */
  const lines = () =>
    log
      .map((line) => JSON.parse(line) as { level: string; message: string; advice?: string })
      .filter(({ level, message }) => ["info", "warn", "error"].includes(level) && /secret/.test(message))
  const said = (...levels: ReadonlyArray<string>) =>
    Effect.gen(function* () {
      yield* eventually("the lines", () => lines().length >= levels.length)
      expect(lines().map(({ level }) => level)).toEqual(levels)
    })
  return { base, bearer, calls, lines, log, me, post, refuse, said, world }
})

describe("IAM refuses the application's secret:", () => {
  it.scopedLive.each(["login", "me", "refresh", "logout", "ting"] as const)(
    "one error line names the setting, whatever call shows it: %s",
    function* (name) {
      const { calls, lines, log, me, said, world } = yield* started
      yield* said()
      world.iam.controls.rotateSecret(production, "music")
      expect(yield* calls[name]).toBe(502)
      yield* said("error")
      expect(lines()[0]?.advice).toContain("MUSIC_IAM_APP_SECRET")
      expect(yield* Effect.replicateEffect(me, 3)).toEqual([502, 502, 502])
      yield* said("error")
      expect(world.minted().filter((credential) => log.join("\n").includes(credential))).toEqual([])
    }
  )

  it.scopedLive(
    "one info line says that it is accepted again, and a later refusal is a new one",
    function* () {
      const { me, refuse, said } = yield* started
      refuse("/api/v1/oauth/introspect", 2)
      expect(yield* Effect.replicateEffect(me, 4)).toEqual([502, 502, 200, 200])
      yield* said("error", "info")
      refuse("/api/v1/oauth/introspect", 1)
      expect(yield* Effect.replicateEffect(me, 2)).toEqual([502, 200])
      yield* said("error", "info", "error", "info")
    }
  )

  it.scopedLive("a proof that IAM refuses for its signature is no refusal of the secret", function* () {
    const { calls, refuse, said } = yield* started
    refuse("/api/v1/obo-access/exchanges", 2)
    expect(yield* calls.ting).toBe(502)
    yield* said()
  })

  it.scopedLive("a refused secret of a testing plane is its caller's", function* () {
    const { base, bearer, calls, post, said, world } = yield* started
    const { environmentId, musicSecret } = world.seeded.environment
    const unknown = { "x-testing-environment-key": `ask_${"x".repeat(43)}` }
    expect(yield* post("/auth/login", { slt: "si:deejay" }, unknown)).toBe(401)
    const testing = { "x-testing-environment-key": musicSecret }
    expect(yield* post("/auth/login", { slt: "si:deejay" }, testing)).toBe(200)
    world.iam.controls.rotateSecret(environmentId, "music")
    const answer = yield* call(`${base}/api/v1/auth/me`, { headers: { ...bearer, ...testing } })
    expect(answer.status).toBe(401)
    expect(yield* calls.me).toBe(200)
    yield* said()
  })
})
