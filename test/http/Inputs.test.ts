import { expect } from "vitest"
import * as Redacted from "effect/Redacted"
import * as Option from "effect/Option"
import { signWebhook } from "../../sandbox/upstreams/Iam.ts"
import { testWebhookSecret } from "../support/Settings.ts"
import { sharing } from "../world/Test.ts"
import { expectEnvelope } from "./Envelope.ts"
import { accepted, canary, refusals, withPlane } from "./Inputs.ts"
import {
  type CallName,
  errorOf,
  goodRequests,
  outcomeOf,
  shared,
  sharedInMemory,
  used,
  withHeaders
} from "./support.ts"

/** The use case of a call. A token is asked for before. */
const useCases: Partial<Record<CallName, string>> = {
  me: "authenticate",
  send: "authenticate",
  subscribe: "authenticate"
}

sharing(sharedInMemory())("A request", (it) => {
  it.effect(
    "that is wrong on its face is refused before any use case, and nothing of it is shown",
    function* () {
      const server = yield* shared
      const good = yield* goodRequests(server)
      for (const { call, change, code, fields, name, status } of refusals) {
        server.reached.length = 0
        server.upstreams.seen.length = 0
        const answer = yield* server.send(change(good[call]))
        expect([call, name, outcomeOf(answer)]).toEqual([call, name, code])
        expectEnvelope(answer, status, code)
        expect([call, name, server.reached, server.upstreams.seen]).toEqual([call, name, [], []])
        expect([name, answer.headers["www-authenticate"]]).toEqual([
          name,
          code === "unauthenticated" ? "Bearer" : undefined
        ])
        expect(answer.text).not.toMatch(/CANARY|a{20}|t{20}|a1B2/)
        if (fields === undefined) continue
        const found = errorOf(answer).details?.fields?.map(({ path, problem }) => [path, problem]) ?? []
        const wanted = Object.entries(fields).map(([path, problem]) => [
          path,
          expect.stringContaining(problem)
        ])
        expect([call, name, Object.fromEntries(found)]).toEqual([call, name, Object.fromEntries(wanted)])
      }
      expect(JSON.stringify(server.lines)).not.toContain(canary)
      expect(JSON.stringify(yield* server.recorded)).not.toContain(canary)
    }
  )

  it.effect("at the edge of what is allowed reaches its use case", function* () {
    const server = yield* shared
    const good = yield* goodRequests(server)
    for (const { call, change, name } of accepted) {
      server.reached.length = 0
      yield* server.send(change(good[call]))
      expect([call, name, used(server)[0]]).toEqual([call, name, useCases[call] ?? call])
    }
    expect(server.lines.filter(({ level }) => level === "ERROR")).toEqual([])
  })

  it.effect("is read exactly: keys, credentials, and numbers as doubles", function* () {
    const server = yield* shared
    const good = yield* goodRequests(server)
    yield* server.send(good.me)
    yield* server.send(good.submit)
    yield* server.send({ ...good.submit, headers: { ...good.submit.headers, ...good.me.headers } })
    const text = '[9007199254740993,0.1000000000000000055,1.7976931348623157e308,1e-999,"\\ud83d\\ude00"]'
    yield* server.send({ ...good.accept, body: `{"table":"musicclidaemon","events":[{"a":${text}}]}` })
    const credential = {
      token: Redacted.make(good.me.headers.authorization.slice("Bearer ".length)),
      organisation: "acme"
    }
    const key = Redacted.make(good.submit.headers["idempotency-key"])
    expect(
      server.reached.filter(({ useCase }) => useCase !== "resolve").map(({ input }) => input[1])
    ).toMatchObject([
      credential,
      { introspection: {} },
      { key, credential: Option.none() },
      { key, credential: Option.some(credential) },
      { events: [{ a: [9_007_199_254_740_992, 0.1, Number.MAX_VALUE, 0, "😀"] }] }
    ])
  })

  it.effect("lists at most 20 fields, and of a body of 16 KiB or more only the first", function* () {
    const server = yield* shared
    const { login, submit } = yield* goodRequests(server)
    const many = Object.fromEntries(Array.from({ length: 500 }, (_, at) => [`f${at}`, at]))
    const listed = yield* server.send({ ...login, body: JSON.stringify(many) })
    expect(errorOf(listed).details?.fields?.length).toBe(20)
    for (const [size, problems] of [
      [16_383, 2],
      [16_384, 1],
      [300_000, 1]
    ] as const) {
      const body = JSON.stringify({ message: "short", surplus: 1 }).padEnd(size)
      const answer = yield* server.send({ ...submit, body })
      expect([size, errorOf(answer).details?.fields?.length]).toEqual([size, problems])
    }
  })

  it.effect("of the webhook may nest 64 levels: to write more again would end the stack", function* () {
    const server = yield* shared
    const { receive } = yield* goodRequests(server)
    for (const [depth, status] of [
      [62, 200],
      [63, 400],
      [100_000, 400]
    ] as const) {
      const body = receive.body.replace(
        '"data":{',
        `"data":{"deep":${"[".repeat(depth)}1${"]".repeat(depth)},`
      )
      const timestamp = receive.headers["x-silicon-iam-timestamp"] ?? ""
      const signed = {
        "x-silicon-iam-signature": signWebhook(testWebhookSecret, timestamp, Buffer.from(body))
      }
      const answer = yield* server.send(withHeaders(signed)({ ...receive, body }))
      expect([depth, answer.status]).toEqual([depth, status])
      if (status === 400)
        expect(errorOf(answer).details?.fields).toEqual([
          { path: "body", problem: "nests deeper than 64 levels" }
        ])
    }
  })
})

sharing(sharedInMemory())("The selector of a testing plane", (it) => {
  it.effect("selects the plane of every call that reads it, and of no other", function* () {
    const server = yield* shared
    const good = yield* goodRequests(server)
    const { environmentId, musicSecret } = server.upstreams.seeded.environment
    for (const [name, sent] of Object.entries(good)) {
      server.reached.length = 0
      const answer = yield* server.send(withHeaders({ "x-testing-environment-key": musicSecret })(sent))
      const inPlane = withPlane.includes(name as CallName)
      expect([name, server.reached.some(({ useCase }) => useCase === "resolve")]).toEqual([name, inPlane])
      if (!inPlane) expect([name, answer.status]).toEqual([name, 200])
      const planes = server.reached.filter(({ useCase }) => !["resolve", "readiness"].includes(useCase))
      if (inPlane && name !== "iam")
        expect([name, planes[0]?.input[0]]).toMatchObject([name, { _tag: "Testing", environmentId }])
      if (name === "iam") expect(answer.text).toContain(environmentId)
    }
    const recorded = (yield* server.recorded).map(({ context }) => context.route ?? "webhook")
    expect(recorded).toEqual(["/api/v1/version", "webhook", "/webhook"])
  })

  it.effect("is ignored in any form by probes, version, the documents and the webhook", function* () {
    const server = yield* shared
    const good = yield* goodRequests(server)
    for (const sent of [good.healthz, good.readyz, good.version, good.receive, { path: "/openapi.json" }])
      expect((yield* server.send(withHeaders({ "x-testing-environment-key": "" })(sent))).status).toBe(200)
  })

  it.effect("that is unknown, or another's, is refused", function* () {
    const server = yield* shared
    const { environment, production } = server.upstreams.seeded
    for (const secret of [environment.rootKey, environment.tingSecret, production.musicSecret]) {
      const answer = yield* server.send({
        path: "/api/v1/iam",
        headers: { "x-testing-environment-key": secret }
      })
      expect([secret, errorOf(answer).code]).toEqual([secret, "testing_secret_invalid"])
    }
  })
})
