import { describe, expect } from "vitest"
import { it } from "../world/Test.ts"
import { sharedBackend, call, errorOf, good } from "./support.ts"

const paths = {
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

describe("Paths and methods", () => {
  it.scoped("every other method is 405 with Allow, and no use case runs", function* () {
    const server = yield* sharedBackend
    for (const [path, served] of Object.entries(paths)) {
      const others = path === "/webhook" ? ["HEAD", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"] : []
      for (const method of [served === "GET" ? "POST" : "GET", ...others]) {
        const answer = yield* call(server, { method, path })
        expect([path, method, answer.status]).toEqual([path, method, 405])
        expect(answer.headers.allow).toBe(allowOf(served))
        if (method !== "HEAD") expect(errorOf(answer).code).toBe("method_not_allowed")
        expect(answer.headers["x-request-id"]).toMatch(/^req_[0-9a-f]{32}$/)
      }
    }
    expect(server.reached).toEqual([])
  })

  it.scoped("OPTIONS is 204 with Allow, also for `*`", function* () {
    const server = yield* sharedBackend
    for (const [path, served] of Object.entries(paths)) {
      const answer = yield* call(server, { method: "OPTIONS", path })
      expect([path, answer.status, answer.headers.allow]).toEqual([path, 204, allowOf(served)])
      expect(answer.text).toBe("")
      expect(answer.headers["x-request-id"]).toBeDefined()
    }
    const whole = yield* call(server, { method: "OPTIONS", path: "*" })
    expect([whole.status, whole.headers.allow]).toEqual([204, "GET, HEAD, POST, OPTIONS"])
  })

  it.scoped("HEAD answers like GET, without a body", function* () {
    const server = yield* sharedBackend
    for (const [path, served] of Object.entries(paths)) {
      if (served !== "GET") continue
      const headers = path === "/api/v1/auth/me" ? good.me.headers : {}
      const get = yield* call(server, { path, headers })
      const head = yield* call(server, { method: "HEAD", path, headers })
      expect([path, head.status, head.text]).toEqual([path, 200, ""])
      for (const name of ["content-length", "content-type"])
        expect(head.headers[name]).toBe(get.headers[name])
    }
    const refused = yield* call(server, { method: "HEAD", path: "/api/v1/auth/me" })
    expect([refused.status, refused.text, refused.headers["www-authenticate"]]).toEqual([401, "", "Bearer"])
  })

  it.scoped("paths are exact in case, slashes and encoding", function* () {
    const server = yield* sharedBackend
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
      "/favicon.ico",
      "/api/v1/__proto__",
      "/constructor"
    ]
    for (const [at, path] of others.entries()) {
      const method = ["GET", "POST", "OPTIONS"][at % 3] ?? "GET"
      const answer = yield* call(server, { method, path })
      expect([path, method, answer.status]).toEqual([path, method, 404])
      expect(errorOf(answer).code).toBe("not_found")
    }
    expect(server.reached).toEqual([])
  })

  it.scoped("a query does not change the path, and absolute targets are accepted", function* () {
    const server = yield* sharedBackend
    expect((yield* call(server, { path: "/api/v1/version?x=/y&z" })).status).toBe(200)
    expect((yield* call(server, { path: "http://music.example/api/v1/version?x" })).status).toBe(200)
    expect((yield* call(server, { path: "http://music.example/nope" })).status).toBe(404)
    const strange = yield* call(server, { path: "https://music.example" })
    expect(strange.status).toBe(404)
  })

  it.scoped("both spellings of the webhook reach the same use case", function* () {
    const server = yield* sharedBackend
    for (const path of ["/webhook", "/webhook/"]) {
      const answer = yield* call(server, { ...good.receive, path })
      expect([answer.status, answer.text]).toEqual([200, '{"received":true}'])
    }
    expect(server.reached.map(({ useCase }) => useCase)).toEqual(["receive", "receive"])
  })
})
