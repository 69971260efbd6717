import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { clientVersionMaxLength } from "../../src/schema/Patterns.ts"
import {
  accessToken,
  backend,
  bearer,
  call,
  environmentId,
  errorOf,
  good,
  idempotencyKey,
  json,
  jsonHeaders,
  type Sent,
  sharedBackend,
  sharedBackendWith,
  testingSecret
} from "./support.ts"

/** The request with some headers changed; undefined removes one, a list repeats it. */
const withHeaders = (
  sent: Sent,
  changes: Record<string, string | ReadonlyArray<string> | undefined>
): Sent => {
  const merged: Record<string, string | ReadonlyArray<string> | undefined> = {
    ...(sent.headers as Record<string, string>),
    ...changes
  }
  return {
    ...sent,
    headers: Object.entries(merged).flatMap(([name, value]) =>
      value === undefined
        ? []
        : typeof value === "string"
          ? [name, value]
          : value.flatMap((one) => [name, one])
    ),
    ...(sent.body === undefined ? {} : { chunks: [sent.body] })
  }
}

const calls = (names: ReadonlyArray<keyof typeof good>): ReadonlyArray<Sent> =>
  names.map((name) => good[name])

describe("Idempotency-Key", () => {
  it.scoped("is required for login, refresh, logout and reports", function* () {
    const server = yield* sharedBackend
    for (const sent of calls(["login", "refresh", "logout", "submit"])) {
      const answer = yield* call(server, withHeaders(sent, { "idempotency-key": undefined }))
      expect([sent.path, answer.status, errorOf(answer).code]).toEqual([
        sent.path,
        400,
        "idempotency_key_required"
      ])
    }
    expect(server.reached).toEqual([])
    expect((yield* call(server, withHeaders(good.send, { "idempotency-key": "short" }))).status).toBe(200)
  })

  it.scoped("must have 16 to 255 visible ASCII characters", function* () {
    const server = yield* sharedBackend
    const wrong = [
      "",
      "x".repeat(15),
      "x".repeat(256),
      `${"x".repeat(16)} y`,
      `x${"\u00e9".repeat(20)}`,
      [idempotencyKey, idempotencyKey]
    ]
    for (const key of wrong) {
      const answer = yield* call(server, withHeaders(good.login, { "idempotency-key": key }))
      expect([key, answer.status, errorOf(answer).code]).toEqual([key, 400, "idempotency_key_invalid"])
    }
    expect(server.reached).toEqual([])
    const right = ["x".repeat(16), "~!".repeat(120) + "x".repeat(15)]
    for (const key of right) {
      expect((yield* call(server, withHeaders(good.login, { "idempotency-key": key }))).status).toBe(200)
    }
    expect(server.reached.map(({ input }) => input)).toMatchObject(
      right.map((key) => ({ key: Redacted.make(key) }))
    )
  })
})

describe("Authorization and X-Org-ID", () => {
  const token = (length: number) => `oat_${"a".repeat(length)}`
  const malformed = [
    "",
    "Bearer",
    "Bearer ",
    accessToken,
    `bearer ${accessToken}`,
    `Zearer ${accessToken}`,
    `Bearer  ${accessToken}`,
    `Bearer ${accessToken} x`,
    `Bearer ${accessToken}, x`,
    `Basic ${accessToken}`,
    `Bearer ort_${"a".repeat(40)}`,
    `Bearer ${token(27)}`,
    `Bearer ${token(8189)}`,
    `Bearer oat_${"a".repeat(30)}é`,
    [`Bearer ${accessToken}`, `Bearer ${accessToken}`],
    [`Bearer ${accessToken}`, ""]
  ]

  it.scoped("a missing or malformed bearer is 401 with its scheme, without a call to IAM", function* () {
    const server = yield* sharedBackend
    for (const authorization of [undefined, ...malformed]) {
      const answer = yield* call(server, withHeaders(good.me, { authorization }))
      expect([authorization, answer.status, errorOf(answer).code]).toEqual([
        authorization,
        401,
        "unauthenticated"
      ])
      expect(answer.headers["www-authenticate"]).toBe("Bearer")
    }
    expect(server.reached).toEqual([])
  })

  it.scoped.each([
    ["a missing header", undefined, "missing"],
    ["another case of the scheme", `bearer ${accessToken}`, "the scheme `Bearer`"],
    ["another scheme", `Basic ${accessToken}`, "the scheme `Bearer`"],
    ["no scheme", accessToken, "the scheme `Bearer`"],
    ["a scheme without a token", "Bearer", "access token after the scheme"],
    ["a refresh token", `Bearer ort_${"a".repeat(40)}`, "access token after the scheme"],
    ["two headers", [`Bearer ${accessToken}`, `Bearer ${accessToken}`], "exactly once"]
  ] as const)("the refusal of %s names the part that is wrong", function* ([, authorization, part]) {
    const server = yield* sharedBackend
    const answer = yield* call(server, withHeaders(good.me, { authorization }))
    const { details, message } = errorOf(answer)
    expect([details?.fields?.[0]?.path, message]).toEqual(["Authorization", expect.stringContaining(part)])
    expect(details?.fields?.[0]?.problem).toContain(part)
    expect(answer.text).not.toMatch(/a{20}/)
  })

  it.scoped("tokens of 28 to 8188 visible characters are accepted", function* () {
    const server = yield* sharedBackend
    for (const given of [token(28), token(8188), `oat_${"a".repeat(30)}.~+/=%!`]) {
      const answer = yield* call(server, withHeaders(good.me, { authorization: `Bearer ${given}` }))
      expect([given, answer.status]).toEqual([given, 200])
    }
  })

  it.scoped("an organisation is required with a bearer: 3 to 50 of a-z, 0-9, _ and -", function* () {
    const server = yield* sharedBackend
    for (const organisation of [
      undefined,
      "",
      "ab",
      "a".repeat(51),
      "Acme",
      "ac me",
      "acme!",
      ["acme", "acme"],
      ["acme", ""]
    ]) {
      const answer = yield* call(server, withHeaders(good.me, { "x-org-id": organisation }))
      expect([organisation, answer.status, errorOf(answer).code]).toEqual([
        organisation,
        400,
        "invalid_input"
      ])
      expect(errorOf(answer).details?.fields?.map(({ path }) => path)).toEqual(["X-Org-ID"])
    }
    expect(server.reached).toEqual([])
    for (const organisation of ["abc", "a_-9".repeat(12)]) {
      expect((yield* call(server, withHeaders(good.me, { "x-org-id": organisation }))).status).toBe(200)
    }
    expect(server.reached[0]?.input).toMatchObject({
      credential: { token: Redacted.make(accessToken), organisation: "abc" }
    })
  })

  it.scoped("a bearer is optional for a report, but must be well-formed", function* () {
    const server = yield* sharedBackend
    const malformedBearer = { authorization: "Bearer", "x-org-id": "acme" }
    expect((yield* call(server, withHeaders(good.submit, malformedBearer))).status).toBe(401)
    expect((yield* call(server, withHeaders(good.submit, { ...bearer, "x-org-id": undefined }))).status).toBe(
      400
    )
    expect(server.reached).toEqual([])
    yield* call(server, good.submit)
    yield* call(server, withHeaders(good.submit, { "x-org-id": "Not An Organisation" }))
    yield* call(server, withHeaders(good.submit, bearer))
    expect(server.reached.map(({ input }) => input)).toMatchObject([
      { credential: Option.none() },
      { credential: Option.none() },
      { credential: Option.some({ token: Redacted.make(accessToken), organisation: "acme" }) }
    ])
  })
})

describe("X-Testing-Environment-Key", () => {
  const selecting = calls([
    "iam",
    "login",
    "refresh",
    "logout",
    "me",
    "subscribe",
    "send",
    "submit",
    "accept"
  ])
  const wrong = [
    "",
    "ask_",
    testingSecret.slice(0, -1),
    `${testingSecret}a`,
    testingSecret.toUpperCase(),
    `Bearer ${testingSecret}`,
    [testingSecret, testingSecret],
    [testingSecret, ""],
    ["", testingSecret]
  ]

  it.scoped(
    "never selects production: a malformed, empty or repeated value is 401 testing_secret_invalid",
    function* () {
      const server = yield* sharedBackend
      for (const secret of wrong) {
        const answer = yield* call(server, withHeaders(good.iam, { "x-testing-environment-key": secret }))
        expect([secret, answer.status, errorOf(answer).code]).toEqual([secret, 401, "testing_secret_invalid"])
        expect(answer.headers["www-authenticate"]).toBeUndefined()
      }
      expect(server.reached).toEqual([])
      expect(server.events).toEqual([])
    }
  )

  it.scoped("is read behind many other headers", function* () {
    const server = yield* sharedBackend
    const many = Array.from({ length: 2_200 }, (_, at) => [`a${at % 10}`, ""]).flat()
    const answer = yield* call(server, {
      path: "/api/v1/iam",
      headers: [...many, "x-testing-environment-key", testingSecret]
    })
    expect([answer.status, json(answer)]).toMatchObject([200, { testing_environment_id: environmentId }])
  })

  it.scoped("selects the plane of every call that reads it", function* () {
    const server = yield* sharedBackend
    for (const sent of selecting) {
      yield* call(server, withHeaders(sent, { "x-testing-environment-key": testingSecret }))
    }
    const used = server.reached.filter(({ useCase }) => useCase !== "resolve")
    expect(server.reached.length - used.length).toBe(selecting.length)
    expect(used.length).toBeGreaterThanOrEqual(selecting.length)
    for (const { input } of used) expect(input).toMatchObject({ plane: { _tag: "Testing", environmentId } })
    expect(server.events).toEqual([])
  })

  it.scoped("is ignored by probes, version, the document and the webhook", function* () {
    const server = yield* sharedBackend
    const ignoring: ReadonlyArray<Sent> = [
      ...calls(["healthz", "readyz", "version", "receive"]),
      { path: "/openapi.json" }
    ]
    for (const sent of ignoring) {
      for (const secret of [testingSecret, ""]) {
        const answer = yield* call(server, withHeaders(sent, { "x-testing-environment-key": secret }))
        expect([sent.path, secret, answer.status]).toEqual([sent.path, secret, 200])
      }
    }
    expect(server.reached.map(({ useCase }) => useCase)).not.toContain("resolve")
  })
})

describe("X-Music-Telemetry, Sec-GPC and DNT", () => {
  it.scoped.each([
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
  ] as ReadonlyArray<readonly [Record<string, string | ReadonlyArray<string>>, boolean]>)(
    "%j: recording is %s",
    function* ([headers, recording]) {
      const server = yield* sharedBackend
      expect((yield* call(server, withHeaders(good.logout, headers))).status).toBe(204)
      expect(server.reached[0]?.info.recording).toBe(recording)
      expect(server.events.length).toBe(recording ? 1 : 0)
    }
  )

  it.scoped("record nothing with MUSIC_TELEMETRY=off", function* () {
    const server = yield* backend({ settings: { telemetry: { enabled: false } } })
    yield* call(server, withHeaders(good.logout, { "x-music-telemetry": "on" }))
    expect(server.reached[0]?.info.recording).toBe(false)
  })
})

describe("X-Music-Source", () => {
  it.scoped.each([
    ["cli", "cli"],
    ["daemon", "daemon"],
    ["web", "web"],
    ["CLI", "unknown"],
    ["", "unknown"],
    ["robot", "unknown"],
    [["cli", "web"], "unknown"],
    [undefined, "unknown"]
  ] as ReadonlyArray<readonly [string | ReadonlyArray<string> | undefined, string]>)(
    "%s is recorded as %s",
    function* ([source, known]) {
      const server = yield* sharedBackend
      yield* call(server, withHeaders(good.logout, { "x-music-source": source }))
      expect(server.reached[0]?.info.source).toBe(known)
    }
  )
})

describe("X-Music-Client-Version", () => {
  const minCli = "1.2.0"
  const supporting = sharedBackendWith({ minCli })
  const longest = `1.1.9-${"a".repeat(clientVersionMaxLength - "1.1.9-".length)}`

  it.scoped.each([
    ["1.1.9", minCli],
    ["1.2.0-rc.1", minCli],
    [longest, minCli],
    ["1.2.0", undefined],
    ["1.2.0+7", undefined],
    ["1.10.0", undefined],
    [`${longest}a`, undefined],
    [`0.0.${"0".repeat(8_000)}`, undefined],
    ["1.1", undefined],
    ["v1.1.9", undefined],
    ["latest", undefined],
    ["", undefined],
    [["1.1.9", "1.1.9"], undefined],
    [undefined, undefined]
  ] as ReadonlyArray<readonly [string | ReadonlyArray<string> | undefined, string | undefined]>)(
    "%s: the oldest supported version is sent as %s, and the call is served",
    function* ([version, sent]) {
      const server = yield* supporting
      const answer = yield* call(server, withHeaders(good.me, { "x-music-client-version": version }))
      expect([answer.status, answer.headers["x-music-min-cli"]]).toEqual([200, sent])
    }
  )

  it.scoped(
    "below the oldest supported one, every response under /api/v1 says so, and no other response",
    function* () {
      const server = yield* supporting
      for (const [sent, status, expected] of [
        [good.version, 200, minCli],
        [good.login, 200, minCli],
        [good.logout, 204, minCli],
        [{ ...good.version, method: "HEAD" }, 200, minCli],
        [{ ...good.version, method: "OPTIONS" }, 204, minCli],
        [{ path: "/api/v1/auth/me" }, 401, minCli],
        [{ path: "/api/v1/nope" }, 404, minCli],
        [{ path: good.login.path }, 405, minCli],
        [{ ...good.login, body: "{" }, 400, minCli],
        [{ ...good.login, headers: { ...good.login.headers, "content-type": "text/plain" } }, 415, minCli],
        [good.healthz, 200, undefined],
        [good.readyz, 200, undefined],
        [good.receive, 200, undefined],
        [{ path: "/openapi.json" }, 200, undefined],
        [{ path: "/docs" }, 200, undefined],
        [{ path: "/nope" }, 404, undefined]
      ] as ReadonlyArray<readonly [Sent, number, string | undefined]>) {
        const answer = yield* call(server, {
          ...sent,
          headers: { ...(sent.headers as Record<string, string>), "x-music-client-version": "1.1.9" }
        })
        expect([sent.method, sent.path, answer.status, answer.headers["x-music-min-cli"]]).toEqual([
          sent.method,
          sent.path,
          status,
          expected
        ])
      }
    }
  )
})

describe("X-Request-Id", () => {
  it.scoped("is kept when it has 8 to 128 of A-Z, a-z, 0-9, dot, underscore and hyphen", function* () {
    const server = yield* sharedBackend
    for (const id of ["12345678", "A-b_c.9z", "x".repeat(128)]) {
      const answer = yield* call(server, withHeaders(good.logout, { "x-request-id": id }))
      expect(answer.headers["x-request-id"]).toBe(id)
      expect(server.reached.at(-1)?.info.requestId).toBe(id)
    }
    const generated = new Set<unknown>()
    const replaced = [
      undefined,
      "",
      "1234567",
      "x".repeat(129),
      "with space",
      "semi;colon",
      ["12345678", "12345678"]
    ]
    for (const id of replaced) {
      const answer = yield* call(server, withHeaders(good.logout, { "x-request-id": id }))
      expect(answer.headers["x-request-id"]).toMatch(/^req_[0-9a-f]{32}$/)
      expect(server.reached.at(-1)?.info.requestId).toBe(answer.headers["x-request-id"])
      generated.add(answer.headers["x-request-id"])
    }
    expect(generated.size).toBe(replaced.length)
  })
})

describe("Content-Type", () => {
  it.scoped("must be application/json: any other is 415", function* () {
    const server = yield* sharedBackend
    const changed: ReadonlyArray<Parameters<typeof withHeaders>[1]> = [
      { "content-type": undefined },
      { "content-type": "" },
      { "content-type": "text/plain" },
      { "content-type": "text/json" },
      { "content-type": "application/x-www-form-urlencoded" },
      { "content-type": "application/problem+json" },
      { "content-type": "application/jsonp" },
      { "content-type": "application/json; charset=latin1" },
      { "content-type": "multipart/form-data; boundary=application/json" },
      { "content-type": ["application/json", "text/plain"] },
      { "content-encoding": "gzip" },
      { "content-encoding": "identity, gzip" }
    ]
    for (const changes of changed) {
      const answer = yield* call(server, withHeaders(good.login, changes))
      expect([changes, answer.status, errorOf(answer).code]).toEqual([changes, 415, "unsupported_media_type"])
    }
    expect(server.reached).toEqual([])
  })

  it.scoped("accepts the charset parameter, in any case", function* () {
    const server = yield* sharedBackend
    for (const type of [
      "application/json",
      "Application/JSON",
      "application/json;charset=utf-8",
      'application/json ; charset="UTF-8"',
      "application/json;"
    ]) {
      expect(
        (yield* call(
          server,
          withHeaders(good.accept, { "content-type": type, "content-encoding": "identity" })
        )).status
      ).toBe(204)
    }
  })

  /** Without a declared length, with one of 0, and in no chunks. */
  const emptyBodies: ReadonlyArray<Partial<Sent>> = [
    {},
    { headers: jsonHeaders },
    { headers: { "content-length": "0" } },
    { headers: { ...jsonHeaders, "transfer-encoding": "chunked" }, chunks: [] }
  ]
  const emptied = (sent: Sent, { headers, ...rest }: Partial<Sent>): Sent => ({
    method: "POST",
    path: sent.path,
    headers: { "idempotency-key": idempotencyKey, ...bearer, ...headers },
    ...rest
  })

  it.scoped("an empty body is 400", function* () {
    const server = yield* sharedBackend
    const sent = [
      ...emptyBodies.map((empty) => emptied(good.login, empty)),
      ...calls(["refresh", "logout", "send", "submit", "accept"]).map((one) => emptied(one, {}))
    ]
    for (const one of sent) {
      const answer = yield* call(server, one)
      expect([one.path, answer.status, errorOf(answer).details?.fields]).toEqual([
        one.path,
        400,
        [{ path: "body", problem: "is empty" }]
      ])
    }
    expect(server.reached).toEqual([])
  })

  it.scoped("an empty body means {} for a subscription, which has no fields", function* () {
    const server = yield* sharedBackend
    const untyped = { headers: { "transfer-encoding": "chunked" }, chunks: [] }
    for (const empty of [...emptyBodies, untyped]) {
      const answer = yield* call(server, emptied(good.subscribe, empty))
      expect([empty, answer.status]).toEqual([empty, 200])
    }
    expect(server.reached.filter(({ useCase }) => useCase === "subscribe").length).toBe(5)
    for (const body of [" ", "null", "[]"]) {
      expect((yield* call(server, { ...good.subscribe, body })).status).toBe(400)
    }
  })
})
