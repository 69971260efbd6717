import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { startTestSandbox } from "../support/Sandbox.ts"
import { calls, raw } from "./Calls.ts"

describe("A subscription, over real HTTP", () => {
  it.scopedLive("registers with {}, with an empty body, and without any body headers", () =>
    Effect.gen(function* () {
      const sandbox = yield* startTestSandbox
      const { login } = calls(sandbox)
      const { accessToken } = yield* login()
      const subscribe = (rest: string) =>
        raw(
          sandbox.base,
          `POST /api/v1/ting/subscription HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${accessToken}\r\nX-Org-ID: acme\r\n${rest}`
        )
      for (const rest of [
        "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
        "Content-Type: application/json\r\nContent-Length: 0\r\n\r\n",
        "Content-Length: 0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "\r\n"
      ]) {
        const answer = yield* subscribe(rest)
        expect([rest, answer]).toEqual([rest, expect.stringMatching(/^HTTP\/1\.1 200 [\s\S]*"active":true/)])
      }
      const named = yield* subscribe("Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
      expect(named).toMatch(/^HTTP\/1\.1 415 /)
    })
  )
})
