/** What paths and methods there are. Other spellings of a path are in the table of inputs. */
import { expect } from "vitest"
import { sharing } from "../world/Test.ts"
import { errorOf, goodRequests, outcomeOf, shared, sharedOnSocket } from "./support.ts"

const documents = ["/", "/docs", "/openapi.json"]

const allowOf = (method: string) => (method === "GET" ? "GET, HEAD, OPTIONS" : `${method}, OPTIONS`)

sharing(sharedOnSocket())("Paths and methods", (it) => {
  it.effect("every other method is 405 with Allow, and OPTIONS is 204 with it", function* () {
    const server = yield* shared
    const good = Object.values(yield* goodRequests(server))
    const served = [
      ...good.map((sent) => ({ path: sent.path, method: "method" in sent ? sent.method : "GET" })),
      ...documents.map((path) => ({ path, method: "GET" })),
      { path: "/webhook/", method: "POST" }
    ]
    for (const { method: own, path } of served) {
      const others = path === "/webhook" ? ["HEAD", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"] : []
      for (const method of [own === "GET" ? "POST" : "GET", ...others]) {
        const answer = yield* server.send({ method, path })
        expect([path, method, answer.status, answer.headers.allow]).toEqual([path, method, 405, allowOf(own)])
        if (method !== "HEAD") expect(errorOf(answer).code).toBe("method_not_allowed")
      }
      const { headers, status, text } = yield* server.send({ method: "OPTIONS", path })
      expect([path, status, headers.allow, text]).toEqual([path, 204, allowOf(own), ""])
      expect(headers["x-request-id"]).toMatch(/^req_[0-9a-f]{32}$/)
    }
    const whole = yield* server.send({ method: "OPTIONS", path: "*" })
    expect([whole.status, whole.headers.allow]).toEqual([204, "GET, HEAD, POST, OPTIONS"])
    expect(server.reached).toEqual([])
  })

  it.effect("HEAD answers like GET, without a body", function* () {
    const server = yield* shared
    const { healthz, iam, me, readyz, version } = yield* goodRequests(server)
    const page = documents.map((path) => ({ path, headers: { accept: "text/html" } }))
    for (const sent of [me, healthz, iam, readyz, version, ...page]) {
      const get = yield* server.send(sent)
      const { headers, status, text } = yield* server.send({ ...sent, method: "HEAD" })
      const same = ["content-length", "content-type"].map((name) => headers[name] === get.headers[name])
      expect([sent.path, status, text, ...same]).toEqual([sent.path, 200, "", true, true])
    }
    const refused = yield* server.send({ method: "HEAD", path: me.path })
    expect([refused.status, refused.text, refused.headers["www-authenticate"]]).toEqual([401, "", "Bearer"])
  })

  it.effect("paths are exact, whatever the method; a query or an absolute target changes none", function* () {
    const server = yield* shared
    const others = [
      ...["//api/v1/version", "/api/v1/./version", "/api/v1/x/../version", "/api/v1", "/api/v2/version"],
      ...["/Webhook", "//webhook", "/webhook//", "/docs/", "/favicon.ico", "/api/v1/__proto__"],
      ...["http://music.example/nope", "https://music.example"]
    ]
    for (const path of others)
      for (const method of ["GET", "POST", "OPTIONS"]) {
        const answer = yield* server.send({ method, path })
        expect([path, method, outcomeOf(answer)]).toEqual([path, method, "not_found"])
      }
    expect(server.reached).toEqual([])
    const version = "/api/v1/version"
    for (const path of [`${version}?x=/y&z`, `${version}#x`, `http://music.example${version}?x`])
      expect([path, (yield* server.send({ path })).status]).toEqual([path, 200])
    const { receive } = yield* goodRequests(server)
    for (const path of ["/webhook", "/webhook/"])
      expect((yield* server.send({ ...receive, path })).text).toBe('{"received":true}')
  })
})
