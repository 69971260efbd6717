import { expect } from "vitest"
import { Effect } from "effect"
import { Failure, type FailureCode, failureTable } from "../../src/schema/Failure.ts"
import { requestedScopes } from "../../src/schema/Identity.ts"
import { version } from "../../src/schema/Release.ts"
import { sharing } from "../world/Test.ts"
import { origins } from "../world/Upstreams.ts"
import {
  expectEnvelope,
  goodRequests,
  inMemory,
  json,
  requestLines,
  shared,
  sharedInMemory,
  withHeaders
} from "./support.ts"

sharing(sharedInMemory())("An answer", (it) => {
  it.effect("of a failed use case is the envelope under the failure's status", function* () {
    const server = yield* shared
    const { login } = yield* goodRequests(server)
    for (const code of Object.keys(failureTable) as ReadonlyArray<FailureCode>) {
      // Of the details only those of the contract are shown.
      const odd = { reason: "because", ...{ token: "oat_secret" } }
      const failure = new Failure(code, { details: odd, allow: "GET, HEAD" })
      server.during.login = Effect.fail(failure)
      const answer = yield* server.send(login)
      const { hint, message, status } = failureTable[code]
      expectEnvelope(answer, status, code)
      const retryable = /^(?:408|429|503)$/.test(String(status)) || code === "idempotency_in_progress"
      const details = { reason: "because" }
      expect(json(answer)).toEqual({ error: { code, message, hint, retryable, details } })
      for (const text of [message, hint]) expect(text).toMatch(/^[A-Z].*\.$/)
      expect(answer.headers["www-authenticate"]).toBe(code === "unauthenticated" ? "Bearer" : undefined)
    }
  })

  it.effect("has Retry-After in whole seconds, which its body does not repeat", function* () {
    const server = yield* shared
    const { login } = yield* goodRequests(server)
    const cases: ReadonlyArray<readonly [Failure, string | undefined]> = [
      [new Failure("rate_limited", {}), "1"],
      [new Failure("temporarily_rate_limited", { retryAfterSeconds: 0.2 }), "1"],
      [new Failure("dependency_unavailable", { retryAfterSeconds: 2.4 }), "3"],
      [new Failure("dependency_unavailable", {}), undefined]
    ]
    for (const [failure, expected] of cases) {
      server.during.login = Effect.fail(failure)
      const answer = yield* server.send(login)
      expect([failure, answer.headers["retry-after"]]).toEqual([failure, expected])
      expect(answer.text).not.toContain("retryAfter")
      // The quota that refused is IAM's, where it is none of the service.
      const quota = failure.code === "rate_limited" ? "iam" : undefined
      expect([failure, requestLines(server).at(-1)?.fields.quota]).toEqual([failure, quota])
    }
  })

  it.effect("to a defect is 500 without its text, which is logged under the request id", function* () {
    const server = yield* shared
    const { login, me } = yield* goodRequests(server)
    const named = withHeaders({ "x-request-id": "find-me-here" })
    const object = { _tag: "not_found", message: "the secret detail" }
    for (const defect of [new Error("the secret detail"), "the secret detail", null, object]) {
      server.during.login = Effect.die(defect)
      server.lines.length = 0
      const answer = yield* server.send(named(login))
      expectEnvelope(answer, 500, "internal")
      expect(answer.headers["x-request-id"]).toBe("find-me-here")
      expect(answer.text).not.toContain("secret detail")
      const line = server.lines.find(({ level }) => level === "ERROR")
      expect(line?.fields.request_id).toBe("find-me-here")
      if (defect instanceof Error) expect(line?.cause).toContain("the secret detail")
    }
    // An answer that does not fit its schema is a defect.
    server.lines.length = 0
    server.during.me = Effect.succeed({ authenticated: true, org_id: "Not An Organisation" })
    expectEnvelope(yield* server.send(me), 500, "internal")
    expect(server.lines.some(({ level }) => level === "ERROR")).toBe(true)
  })

  it.scoped("of a descriptor has the versions and the settings that a login needs", function* () {
    const server = yield* inMemory({ settings: { minCli: "0.7.0", organisation: "harbor" } })
    const described = (name: string) => Effect.map(server.send({ path: `/api/v1/${name}` }), json)
    expect(yield* described("version")).toEqual({ version, api_versions: ["v1"], min_cli: "0.7.0" })
    expect(yield* described("iam")).toEqual({
      ...{
        app_id: "music",
        org_id: "harbor",
        api_version: "v1",
        iam_url: origins.iam,
        ting_url: origins.ting
      },
      ...{ ting_types: ["music.trigger.fired", "music.trigger.expired"], scopes: requestedScopes },
      ...{ testing_environment_id: null, version }
    })
  })
})
