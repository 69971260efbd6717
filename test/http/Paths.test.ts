import { expect } from "vitest"
import { sharing } from "../world/Test.ts"
import { errorOf, goodRequests, outcomeOf, shared, sharedOnSocket } from "./support.ts"

const paths = {
  "/": "GET",
  "/docs": "GET",
  "/healthz": "GET",
  "/readyz": "GET",
  "/openapi.json": "GET",
  "/api/v1/iam": "GET",
  "/api/v1/version": "GET",
  "/api/v1/auth/login": "POST",
  "/api/v1/auth/refresh": "POST",
  "/api/v1/auth/logout": "POST",
  "/api/v1/auth/me": "GET",
  "/api/v1/ting/subscription": "POST",
  "/api/v1/tings": "POST",
  "/api/v1/reports": "POST",
  "/api/v1/telemetry": "POST",
  "/webhook/": "POST",
  "/webhook": "POST"
} as const

const allowOf = (method: string) => (method === "GET" ? "GET, HEAD, OPTIONS" : `${method}, OPTIONS`)

sharing(sharedOnSocket())("Paths and methods", (it) => {
  it.effect("every other method is 405 with Allow, and OPTIONS is 204 with it", function* () {
    const server = yield* shared
    for (const [path, served] of Object.entries(paths)) {
      const others = path === "/webhook" ? ["HEAD", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"] : []
      for (const method of [served === "GET" ? "POST" : "GET", ...others]) {
        const answer = yield* server.send({ method, path })
        expect([path, method, answer.status, answer.headers.allow]).toEqual([
          path,
          method,
          405,
          allowOf(served)
        ])
        if (method !== "HEAD") expect(errorOf(answer).code).toBe("method_not_allowed")
        expect(answer.headers["x-request-id"]).toMatch(/^req_[0-9a-f]{32}$/)
      }
      const { headers, status, text } = yield* server.send({ method: "OPTIONS", path })
      expect([path, status, headers.allow, text]).toEqual([path, 204, allowOf(served), ""])
      expect(headers["x-request-id"]).toMatch(/^req_[0-9a-f]{32}$/)
    }
    const whole = yield* server.send({ method: "OPTIONS", path: "*" })
    expect([whole.status, whole.headers.allow]).toEqual([204, "GET, HEAD, POST, OPTIONS"])
    expect(server.reached).toEqual([])
  })

  it.effect("HEAD answers like GET, without a body", function* () {
    const server = yield* shared
    const { me } = yield* goodRequests(server)
    for (const [path, served] of Object.entries(paths)) {
      if (served !== "GET") continue
      const headers = path === me.path ? me.headers : { accept: "text/html" }
      const get = yield* server.send({ path, headers })
      const head = yield* server.send({ method: "HEAD", path, headers })
      expect([path, head.status, head.text]).toEqual([path, 200, ""])
      for (const name of ["content-length", "content-type"])
        expect(head.headers[name]).toBe(get.headers[name])
    }
    const refused = yield* server.send({ method: "HEAD", path: me.path })
    expect([refused.status, refused.text, refused.headers["www-authenticate"]]).toEqual([401, "", "Bearer"])
  })

  it.effect("paths are exact in case, slashes and encoding", function* () {
    const server = yield* shared
    const others = [
      "/API/V1/VERSION",
      "/api/v1/Version",
      "/api/v1/version/",
      "//api/v1/version",
      "/api//v1/version",
      "/api/v1/./version",
      "/api/v1/x/../version",
      "/api/v1/versio%6e",
      "/api/v1/version;x=1",
      "/api/v1",
      "/api/v2/version",
      "/Webhook",
      "//webhook",
      "/webhook//",
      "/healthz/",
      "/docs/",
      "/favicon.ico",
      "/api/v1/__proto__",
      "/constructor",
      "http://music.example/nope",
      "https://music.example"
    ]
    for (const [at, path] of others.entries()) {
      const method = ["GET", "POST", "OPTIONS"][at % 3] ?? "GET"
      expect([path, method, outcomeOf(yield* server.send({ method, path }))]).toEqual([
        path,
        method,
        "not_found"
      ])
    }
    expect(server.reached).toEqual([])
  })

  it.effect("a query does not change the path, and absolute targets are accepted", function* () {
    const server = yield* shared
    for (const path of [
      "/api/v1/version?x=/y&z",
      "/api/v1/version#x",
      "http://music.example/api/v1/version?x"
    ])
      expect([path, (yield* server.send({ path })).status]).toEqual([path, 200])
  })

  it.effect("both spellings of the webhook reach the same use case", function* () {
    const server = yield* shared
    const { receive } = yield* goodRequests(server)
    for (const path of ["/webhook", "/webhook/"])
      expect((yield* server.send({ ...receive, path })).text).toBe('{"received":true}')
    expect(server.reached.map(({ useCase }) => useCase)).toEqual(["verify", "receive", "verify", "receive"])
  })

  it.effect(
    "the documents are compressed for who accepts gzip, and 304 for who has a current copy",
    function* () {
      const server = yield* shared
      for (const path of ["/openapi.json", "/docs"]) {
        const get = (headers: Record<string, string>) => server.send({ path, headers })
        const plain = yield* get({})
        const zipped = yield* get({ "accept-encoding": "br;q=1, GZIP;q=0.5" })
        expect(zipped.headers).toMatchObject({
          "content-encoding": "gzip",
          vary: "Accept-Encoding",
          "cache-control": "no-cache",
          "x-content-type-options": "nosniff"
        })
        expect(Number(zipped.headers["content-length"])).toBeLessThan(plain.text.length / 3)
        for (const refused of ["", "identity", "gzip;q=0", "gzip; q=0.000", "x-gzip2"]) {
          const answer = yield* get({ "accept-encoding": refused })
          expect([refused, answer.headers["content-encoding"], answer.text]).toEqual([
            refused,
            undefined,
            plain.text
          ])
        }
        const tag = zipped.headers.etag ?? ""
        expect(tag).toMatch(/^W\/"[\w-]{22}"$/)
        for (const known of [tag, tag.slice(2), `"other", ${tag}`, "*"]) {
          const { headers, status, text } = yield* get({ "if-none-match": known })
          expect([known, status, text, headers.etag]).toEqual([known, 304, "", tag])
        }
        expect((yield* get({ "if-none-match": '"other"' })).status).toBe(200)
      }
    }
  )
})
