import { randomUUID } from "node:crypto"
import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { call, expectJson, textOf } from "../../sandbox/HttpExchange.ts"
import type { SimulatedUpstreams } from "../../sandbox/SimulatedUpstreams.ts"
import { mintSlt } from "../../sandbox/SimulatedUpstreams.ts"
import { startTestSandbox } from "../support/Sandbox.ts"

/** Ting's own calls to IAM do not count as round trips of the server. */
const tingsOwn = ["/api/v1/obo-access/verify"]

/** Our calls to IAM and Ting since the previous reading, in the order of arrival. */
const journal = ({ iam, ting }: SimulatedUpstreams) => {
  let seenAtIam = 0
  let seenAtTing = 0
  return () => {
    const calls = [
      ...iam.seen.slice(seenAtIam).filter(({ path }) => !tingsOwn.includes(path)),
      ...ting.seen.slice(seenAtTing)
    ].map(({ method, path }) => `${method} ${path}`)
    seenAtIam = iam.seen.length
    seenAtTing = ting.seen.length
    return calls
  }
}

const key = () => randomUUID()

describe("Round trips to the upstreams", () => {
  it.scopedLive(
    "a login makes four, a refresh two, me one, a ting three, whatever their latency",
    function* () {
      const { world, base } = yield* startTestSandbox
      const calls = journal(world)
      const post = (path: string, body: unknown, headers: Readonly<Record<string, string>>) =>
        Effect.flatMap(call(`${base}${path}`, { method: "POST", body, headers }), (exchange) =>
          expectJson(exchange, 200)
        )
      const login = Effect.suspend(() =>
        post("/api/v1/auth/login", { slt: mintSlt(world) }, { "idempotency-key": key() })
      )

      // Cold cache: the catalogue is requested once, in parallel with other calls.
      yield* login
      expect(calls().filter((line) => line.includes("/obo-access/applications/ting/endpoints"))).toHaveLength(
        1
      )

      for (const simulator of [world.iam, world.ting]) {
        simulator.fail({ times: Number.POSITIVE_INFINITY, fault: { kind: "delay", milliseconds: 100 } })
      }
      const session = yield* login
      expect(calls()).toEqual([
        "POST /api/v1/app-auth/tokens",
        "POST /api/v1/oauth/introspect",
        "POST /api/v1/obo-access/exchanges",
        "POST /v1/subscriptions"
      ])

      const refreshed = yield* post(
        "/api/v1/auth/refresh",
        { refresh_token: yield* textOf(session, "refresh_token") },
        { "idempotency-key": key() }
      )
      expect(calls()).toEqual(["POST /api/v1/app-auth/tokens", "POST /api/v1/oauth/introspect"])

      const bearer = {
        authorization: `Bearer ${yield* textOf(refreshed, "access_token")}`,
        "x-org-id": "acme"
      }
      yield* Effect.flatMap(call(`${base}/api/v1/auth/me`, { headers: bearer }), (exchange) =>
        expectJson(exchange, 200)
      )
      expect(calls()).toEqual(["POST /api/v1/oauth/introspect"])

      yield* post("/api/v1/tings", { type: "music.trigger.fired", key: "si:deejay/count", data: {} }, bearer)
      expect(calls()).toEqual([
        "POST /api/v1/oauth/introspect",
        "POST /api/v1/obo-access/exchanges",
        "POST /v1/tings"
      ])
    }
  )
})
