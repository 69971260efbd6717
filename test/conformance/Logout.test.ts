import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { startTestSandbox } from "../support/Sandbox.ts"
import { calls, codeOf, keyed } from "./Calls.ts"

const path = "/api/v1/auth/logout"

describe("A logout, over real HTTP", () => {
  it.scopedLive("of any string is 204, and what cannot be a token is sent nowhere", () =>
    Effect.gen(function* () {
      const sandbox = yield* startTestSandbox
      const { post } = calls(sandbox)
      const { seen } = sandbox.world.iam
      const strings = ["", "x", "no token\n", "🎵", `obo_${"x".repeat(43)}`, "ort_", `ort_${"é".repeat(43)}`]
      for (const token of [...strings, "x".repeat(16_000)]) {
        const { status, text } = yield* post(path, { token }, keyed())
        expect([token.slice(0, 8), status, text]).toEqual([token.slice(0, 8), 204, ""])
      }
      expect(seen).toEqual([])
      expect(sandbox.log.join("\n")).not.toContain("obo_xxxx")
    })
  )

  it.scopedLive("needs a string, and one that fits the body", () =>
    Effect.gen(function* () {
      const { post } = calls(yield* startTestSandbox)
      for (const body of [{}, { token: null }, { token: 1 }, { token: ["ort_x"] }]) {
        expect(codeOf(yield* post(path, body, keyed()))).toBe("invalid_input")
      }
      expect(codeOf(yield* post(path, { token: "x".repeat(16_384) }, keyed()))).toBe("payload_too_large")
    })
  )

  it.scopedLive("of the exact token ends its session; of nearly the same one it ends nothing", () =>
    Effect.gen(function* () {
      const { get, login, post } = calls(yield* startTestSandbox)
      const { refreshToken, signed } = yield* login()
      expect((yield* post(path, { token: `${refreshToken}\n` }, keyed())).status).toBe(204)
      expect((yield* get("/api/v1/auth/me", signed)).status).toBe(200)
      expect((yield* post(path, { token: refreshToken }, keyed())).status).toBe(204)
      expect((yield* get("/api/v1/auth/me", signed)).status).toBe(401)
    })
  )
})
