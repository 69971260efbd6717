import { expect } from "vitest"
import { sharing } from "../world/Test.ts"
import { goodRequests, type Sent, shared, sharedInMemory, withHeaders } from "./support.ts"

type Values = string | ReadonlyArray<string> | undefined

sharing(sharedInMemory())("Headers about the caller", (it) => {
  it.effect("X-Music-Telemetry, Sec-GPC and DNT: one refusal is enough", function* () {
    const server = yield* shared
    const { logout } = yield* goodRequests(server)
    const allowing: ReadonlyArray<Record<string, Values>> = [
      {},
      { "x-music-telemetry": "on" },
      { "sec-gpc": "0", dnt: "0" }
    ]
    const refusing: typeof allowing = [
      ...["off", "On", "", "yes", ["on", "off"]].map((value) => ({ "x-music-telemetry": value })),
      { "sec-gpc": "1" },
      { dnt: "1" },
      { "x-music-telemetry": "on", "sec-gpc": "1" },
      { "x-music-telemetry": "on", dnt: ["0", "1"] }
    ]
    for (const headers of [...allowing, ...refusing]) {
      expect((yield* server.send(withHeaders(headers)(logout))).status).toBe(204)
      const { recording } = server.reached.at(-1)?.info ?? {}
      expect([headers, recording]).toEqual([headers, allowing.includes(headers)])
    }
  })

  it.effect("X-Request-Id is kept when it is well-formed and no credential", function* () {
    const server = yield* shared
    const { logout } = yield* goodRequests(server)
    const credential = `oat_${"aB3d".repeat(10)}`
    const kept: ReadonlyArray<Values> = ["12345678", "A-b_c.9z", "x".repeat(128)]
    const replaced: ReadonlyArray<Values> = [
      ...[undefined, "", "1234567", "x".repeat(129), "with space", "a;b;c;d;e", credential],
      ["12345678", "12345678"]
    ]
    const made = new Set<unknown>()
    for (const id of [...kept, ...replaced]) {
      const { headers } = yield* server.send(withHeaders({ "x-request-id": id })(logout))
      expect(server.reached.at(-1)?.info.requestId).toBe(headers["x-request-id"])
      const wanted = kept.includes(id) ? id : expect.stringMatching(/^req_[0-9a-f]{32}$/)
      expect([id, headers["x-request-id"]]).toEqual([id, wanted])
      made.add(headers["x-request-id"])
    }
    expect(made.size).toBe(kept.length + replaced.length)
    expect(JSON.stringify(server.lines)).not.toContain(credential)
  })
})

const minCli = "1.2.0"
const longest = `1.1.9-${"a".repeat(64 - "1.1.9-".length)}`

sharing(sharedInMemory({ settings: { minCli } }))("X-Music-Client-Version", (it) => {
  it.effect("below the oldest supported one is answered with that; nothing else is a version", function* () {
    const server = yield* shared
    const { me } = yield* goodRequests(server)
    const older: ReadonlyArray<Values> = ["1.1.9", longest]
    const newer = ["1.2.0", "1.2.0-rc.1", "1.2.0+7", "1.10.0"]
    const none: ReadonlyArray<Values> = [`${longest}a`, "1.1", "v1.1.9", "", ["1.1.9", "1.1.9"], undefined]
    for (const version of [...older, ...newer, ...none]) {
      const { headers, status } = yield* server.send(withHeaders({ "x-music-client-version": version })(me))
      const expected = older.includes(version) ? minCli : undefined
      expect([version, status, headers["x-music-min-cli"]]).toEqual([version, 200, expected])
    }
  })

  it.effect("concerns every response under /api/v1, and no other response", function* () {
    const server = yield* shared
    const good = yield* goodRequests(server)
    const sent: ReadonlyArray<Sent> = [
      ...[good.version, good.logout, good.healthz, good.receive],
      ...["HEAD", "OPTIONS"].map((method) => ({ ...good.version, method })),
      ...["/api/v1/auth/me", "/api/v1/nope", good.login.path, "/docs", "/nope"].map((path) => ({ path })),
      { ...good.login, body: "{" }
    ]
    for (const one of sent) {
      const { headers } = yield* server.send(withHeaders({ "x-music-client-version": "1.1.9" })(one))
      const expected = one.path.startsWith("/api/v1/") ? minCli : undefined
      expect([one.path, headers["x-music-min-cli"]]).toEqual([one.path, expected])
    }
  })
})
