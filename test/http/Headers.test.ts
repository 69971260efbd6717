import { describe, expect } from "vitest"
import { clientVersionMaxLength } from "../../src/schema/Patterns.ts"
import { it, sharing } from "../world/Test.ts"
import { goodRequests, inMemory, type Sent, shared, sharedInMemory, withHeaders } from "./support.ts"

type Values = string | ReadonlyArray<string> | undefined

sharing(sharedInMemory())("Headers about the caller", (it) => {
  it.effect("X-Music-Telemetry, Sec-GPC and DNT: one refusal is enough", function* () {
    const server = yield* shared
    const { logout } = yield* goodRequests(server)
    const cases: ReadonlyArray<readonly [Record<string, Values>, boolean]> = [
      [{}, true],
      [{ "x-music-telemetry": "on" }, true],
      [{ "sec-gpc": "0", dnt: "0" }, true],
      [{ "x-music-telemetry": "off" }, false],
      [{ "x-music-telemetry": "On" }, false],
      [{ "x-music-telemetry": "" }, false],
      [{ "x-music-telemetry": "yes" }, false],
      [{ "x-music-telemetry": ["on", "off"] }, false],
      [{ "sec-gpc": "1" }, false],
      [{ dnt: "1" }, false],
      [{ "x-music-telemetry": "on", "sec-gpc": "1" }, false],
      [{ "x-music-telemetry": "on", dnt: ["0", "1"] }, false]
    ]
    for (const [headers, recording] of cases) {
      expect((yield* server.send(withHeaders(headers)(logout))).status).toBe(204)
      expect([headers, server.reached.at(-1)?.info.recording]).toEqual([headers, recording])
    }
    expect((yield* server.recorded).length).toBe(3)
  })

  it.effect("X-Music-Source is cli, daemon or web, or unknown", function* () {
    const server = yield* shared
    const { logout } = yield* goodRequests(server)
    for (const source of ["cli", "daemon", "web", "CLI", "", "robot", ["cli", "web"], undefined]) {
      yield* server.send(withHeaders({ "x-music-source": source })(logout))
      const known = source === "cli" || source === "daemon" || source === "web" ? source : "unknown"
      expect([source, server.reached.at(-1)?.info.source]).toEqual([source, known])
    }
  })

  it.effect("X-Request-Id is kept when it is well-formed and no credential", function* () {
    const server = yield* shared
    const { logout } = yield* goodRequests(server)
    const credential = `oat_${"aB3d".repeat(10)}`
    const replaced = [
      undefined,
      "",
      "1234567",
      "x".repeat(129),
      "with space",
      "a;b;c;d;e",
      ["12345678", "12345678"]
    ]
    const made = new Set<unknown>()
    for (const id of ["12345678", "A-b_c.9z", "x".repeat(128), ...replaced, credential]) {
      const { headers } = yield* server.send(withHeaders({ "x-request-id": id })(logout))
      expect(server.reached.at(-1)?.info.requestId).toBe(headers["x-request-id"])
      if (headers["x-request-id"] === id) continue
      expect([id, headers["x-request-id"]]).toEqual([id, expect.stringMatching(/^req_[0-9a-f]{32}$/)])
      made.add(headers["x-request-id"])
    }
    expect(made.size).toBe(replaced.length + 1)
    expect(JSON.stringify(server.lines)).not.toContain(credential)
  })
})

const minCli = "1.2.0"
const longest = `1.1.9-${"a".repeat(clientVersionMaxLength - "1.1.9-".length)}`

sharing(sharedInMemory({ settings: { minCli } }))("X-Music-Client-Version", (it) => {
  it.effect("below the oldest supported one is answered with that; nothing else is a version", function* () {
    const server = yield* shared
    const { me } = yield* goodRequests(server)
    const cases: ReadonlyArray<readonly [Values, string | undefined]> = [
      ["1.1.9", minCli],
      ["1.2.0-rc.1", minCli],
      [longest, minCli],
      ["1.2.0", undefined],
      ["1.2.0+7", undefined],
      ["1.10.0", undefined],
      [`${longest}a`, undefined],
      ["1.1", undefined],
      ["v1.1.9", undefined],
      ["latest", undefined],
      ["", undefined],
      [["1.1.9", "1.1.9"], undefined],
      [undefined, undefined]
    ]
    for (const [version, expected] of cases) {
      const { headers, status } = yield* server.send(withHeaders({ "x-music-client-version": version })(me))
      expect([version, status, headers["x-music-min-cli"]]).toEqual([version, 200, expected])
    }
  })

  it.effect("concerns every response under /api/v1, and no other response", function* () {
    const server = yield* shared
    const good = yield* goodRequests(server)
    const sent: ReadonlyArray<readonly [Sent, number]> = [
      [good.version, 200],
      [good.login, 200],
      [good.logout, 204],
      [{ ...good.version, method: "HEAD" }, 200],
      [{ ...good.version, method: "OPTIONS" }, 204],
      [{ path: "/api/v1/auth/me" }, 401],
      [{ path: "/api/v1/nope" }, 404],
      [{ path: good.login.path }, 405],
      [{ ...good.login, body: "{" }, 400],
      [good.healthz, 200],
      [good.readyz, 200],
      [good.receive, 200],
      [{ path: "/openapi.json" }, 200],
      [{ path: "/docs" }, 200],
      [{ path: "/nope" }, 404]
    ]
    for (const [one, status] of sent) {
      const answer = yield* server.send(withHeaders({ "x-music-client-version": "1.1.9" })(one))
      const expected = one.path.startsWith("/api/v1/") ? minCli : undefined
      expect([one.path, answer.status, answer.headers["x-music-min-cli"]]).toEqual([
        one.path,
        status,
        expected
      ])
    }
  })
})

describe("MUSIC_TELEMETRY=off", () => {
  it.scoped("records nothing, whatever the caller allows", function* () {
    const server = yield* inMemory({ settings: { telemetry: { enabled: false } } })
    const { logout } = yield* goodRequests(server)
    yield* server.send(withHeaders({ "x-music-telemetry": "on" })(logout))
    expect(server.reached[0]?.info.recording).toBe(false)
  })
})

describe("The context of a use case", () => {
  it.scoped("has the network of the client and the deadline of the request", function* () {
    const server = yield* inMemory({ settings: { requestDeadlineSeconds: 25 } })
    const { logout } = yield* goodRequests(server)
    yield* server.send({ ...logout, from: "2001:db8:1:2::7" })
    const [first] = server.reached
    expect(first?.info).toMatchObject({ clientNetwork: "2001:db8:1:2", recording: true })
    const [now = 0] = [first?.info.deadlineAt]
    yield* server.send({ ...logout, from: "203.0.113.7" })
    expect(server.reached.at(-1)?.info).toMatchObject({ clientNetwork: "203.0.113.7", deadlineAt: now })
  })
})
