/** Real proxies with the files of `ops` in front of the real server. */
import { join } from "node:path"
import { assert, beforeAll, describe } from "vitest"
import { it } from "../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import { production } from "../../sandbox/upstreams/Iam.ts"
import { settings } from "../../src/layers/settings/SettingsTable.ts"
import { bodyLimits } from "../../src/schema/BodyLimits.ts"
import { bundleBefore, serve } from "../world/Fleet.ts"
import { folder } from "../layers/store/Stores.ts"
import { requireProgram } from "../support/Programs.ts"
import { eventually } from "../support/Waiting.ts"
import { type Answer, ask, askPlainly, proxies, type Sent, startProxy } from "./Proxies.ts"

beforeAll(bundleBefore)

const codeOf = ({ body }: Answer): string | undefined => /^\{"error":\{"code":"(\w+)"/.exec(body)?.[1]

describe.each(proxies)("$name with its file of ops", (proxy) => {
  it("waits longer than a request may take, and gives up idle connections before the server does", () => {
    const seconds = (pattern: RegExp) => Number(pattern.exec(proxy.example)?.[1])
    const waits = seconds(/^\s*(?:proxy_read_timeout|response_header_timeout) (\d+)s/m)
    assert.isAbove(waits, Number(settings.MUSIC_REQUEST_DEADLINE_SECONDS.default))
    const keeps = seconds(/^\s*(?:keepalive_timeout|keepalive) (\d+)s/m)
    assert.isBelow(keeps, 65)
    assert.isAbove(keeps, 0)
  })

  beforeAll(() => requireProgram(proxy.name))

  it.scopedLive(
    "ends TLS, and passes addresses, paths, headers and bodies as the server needs them",
    function* () {
      const { port, server, world } = yield* serve({
        MUSIC_DATABASE_PATH: join(yield* folder, "music.sqlite"),
        MUSIC_TRUSTED_PROXIES: "127.0.0.1",
        MUSIC_LOG_CLIENT_ADDRESS: "on"
      })
      const { folder: place, port: front } = yield* startProxy(proxy, port)
      const send = (path: string, sent: Sent = {}) => Effect.promise(() => ask(front, path, sent))

      // Caddy makes its redirects by itself, for its own name.
      for (const host of proxy.name === "nginx"
        ? ["localhost", "stranger.example", "stranger.example:80"]
        : []) {
        const redirect = yield* Effect.promise(() => askPlainly(place, "/docs?page=1", host))
        deepStrictEqual([redirect.status, redirect.headers.location], [308, "https://localhost/docs?page=1"])
      }

      const version = yield* send("/api/v1/version", { headers: { "x-forwarded-for": "198.51.100.7" } })
      assert.strictEqual(version.status, 200)
      assert.strictEqual(version.headers["strict-transport-security"], "max-age=31536000")
      const request = new RegExp(`"request_id":"${String(version.headers["x-request-id"])}".*`)
      yield* eventually("the request is logged", () => request.test(server.output()), server.output)
      assert.include(request.exec(server.output())?.[0] ?? "", '"client_address":"127.0.0.2"')

      for (const path of ["/api//v1/version", "/api/v1/%76ersion", "/api/v1/../v1/version"])
        deepStrictEqual([path, codeOf(yield* send(path))], [path, "not_found"])

      const { controls } = world.iam
      const signed = controls.buildWebhook(
        production,
        controls.events.membershipUpdated(production, "si:lyra", "acme")
      )
      const delivered = yield* send("/webhook/", {
        method: "POST",
        headers: signed.headers,
        body: signed.body
      })
      assert.strictEqual(delivered.status, 200, delivered.body)

      // The longest token arrives, and what is too long for the server is refused by the server.
      const bearer = (characters: number) => ({
        authorization: `Bearer ${"t".repeat(characters)}`,
        "x-org-id": "acme"
      })
      const known = yield* send("/api/v1/auth/me", { headers: bearer(8_188) })
      deepStrictEqual([known.status, codeOf(known)], [401, "unauthenticated"])
      const long = yield* send("/api/v1/auth/me", { headers: bearer(16_384) })
      deepStrictEqual([long.status, codeOf(long)], [431, "invalid_input"])
      const large = {
        method: "POST",
        headers: signed.headers,
        body: Buffer.alloc(bodyLimits.webhook + 1, " ")
      }
      const refused = yield* send("/webhook/", large)
      deepStrictEqual([refused.status, codeOf(refused)], [413, "payload_too_large"])
      // What is far beyond it is refused too, and never with a 502, after which clients try again. A client that still sends may be cut.
      const larger = { ...large, body: Buffer.alloc(4 * bodyLimits.webhook, " ") }
      const chunked = { ...larger, headers: { ...signed.headers, "transfer-encoding": "chunked" } }
      for (const sent of [larger, chunked]) {
        const end = ask(front, "/webhook/", sent).then(
          ({ status }) => status,
          () => "cut"
        )
        assert.include([413, "cut"], yield* Effect.promise(() => end))
      }
    }
  )
})
