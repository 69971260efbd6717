import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { startTestSandbox } from "../support/Sandbox.ts"
import { calls, codeOf, keyed, raw } from "./Calls.ts"

const selector = "X-Testing-Environment-Key"

describe("Planes, over real HTTP", () => {
  it.scopedLive("a selector written in any other way than well and once never means production", () =>
    Effect.gen(function* () {
      const { base, world } = yield* startTestSandbox
      const { environment, production } = world.seeded
      const ask = (lines: string) =>
        raw(base, `GET /api/v1/iam HTTP/1.1\r\nHost: x\r\n${lines}\r\nConnection: close\r\n\r\n`)
      for (const lines of [
        `${selector}:`,
        `${selector}: ${environment.musicSecret}\r\n${selector}: ${environment.musicSecret}`,
        `${selector} : ${environment.musicSecret}`,
        `${selector}:\r\n ${environment.musicSecret}`,
        `${selector}: ${environment.musicSecret}\xe9`,
        `${selector}: ${environment.rootKey}`,
        `${selector}: ${environment.tingSecret}`,
        `${selector}: ${production.musicSecret}`
      ]) {
        expect(yield* ask(lines)).toMatch(/^HTTP\/1\.1 40[01] /)
      }
      for (const lines of [
        `${selector.toUpperCase()}: ${environment.musicSecret}`,
        `${selector}:\t${environment.musicSecret}\t`
      ]) {
        expect(yield* ask(lines)).toContain(`"testing_environment_id":"${environment.environmentId}"`)
      }
    })
  )

  it.scopedLive("a session of one plane opens, renews and ends nothing in the other", () =>
    Effect.gen(function* () {
      const sandbox = yield* startTestSandbox
      const { environment } = sandbox.world.seeded
      const { get, login, post } = calls(sandbox)
      const testing = { [selector]: environment.musicSecret }
      const real = yield* login()
      const test = yield* login(testing, "si:deejay")
      expect(test.session.testing_environment_id).toBe(environment.environmentId)
      expect(codeOf(yield* post("/api/v1/auth/login", { slt: "si:deejay" }, keyed()))).toBe("slt_rejected")

      const status = (headers: Readonly<Record<string, string>>) =>
        Effect.map(get("/api/v1/auth/me", headers), (exchange) => exchange.status)
      expect(yield* status(test.signed)).toBe(401)
      expect(yield* status({ ...real.signed, ...testing })).toBe(401)
      const refreshed = yield* post(
        "/api/v1/auth/refresh",
        { refresh_token: real.refreshToken },
        { ...keyed(), ...testing }
      )
      expect(refreshed.status).toBe(401)
      const ended = yield* post(
        "/api/v1/auth/logout",
        { token: real.refreshToken },
        { ...keyed(), ...testing }
      )
      expect(ended.status).toBe(204)
      expect(yield* status(real.signed)).toBe(200)
      expect(yield* status({ ...test.signed, ...testing })).toBe(200)
    })
  )
})
