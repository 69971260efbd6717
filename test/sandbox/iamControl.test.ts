import { createServer } from "node:http"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { iamFaults, production } from "../../sandbox/upstreams/Iam.ts"
import { faults } from "../../sandbox/upstreams/Simulator.ts"
import { type Bench, isObject, key, loggedIn, outcome, send, startBench, textAt } from "./iamClient.ts"

let bench: Bench
beforeEach(async () => {
  bench = await startBench()
})
afterEach(() => bench.iam.close())

const control = (path: string, body: unknown = undefined, method = "POST") =>
  send(bench.iam.url, method, `/_sandbox/${path}`, {}, body === undefined ? "" : JSON.stringify(body))

describe("control routes", () => {
  it("mint an SLT, for si:deejay in production by default", async () => {
    const minted = await control("slt")
    expect(minted.status).toBe(201)
    const login = await bench.production.login(textAt(minted.json, "slt"))
    expect(login.json).toMatchObject({ actor: { public_id: "si:deejay" } })
    const chosen = await control("slt", {
      plane: bench.seeded.environment.plane,
      actor: "c:ana"
    })
    const testing = await bench.testing.login(textAt(chosen.json, "slt"))
    expect(testing.json).toMatchObject({ actor: { public_id: "c:ana" } })
  })

  it("answer an invalid request with the reason", async () => {
    for (const body of [{ actor: "si:nobody" }, { plane: "nowhere" }, { actor: 1 }, []]) {
      const answer = await control("slt", body)
      expect(answer.status).toBe(400)
      expect(textAt(answer.json, "error", "message")).not.toBe("")
    }
    expect((await control("nothing")).status).toBe(400)
  })

  it("send a signed membership event and return its result", async () => {
    const bodies: Array<string> = []
    const inbox = createServer((request, response) => {
      request.on("data", (chunk: Buffer) => bodies.push(chunk.toString()))
      request.on("end", () => response.writeHead(204).end())
    })
    await new Promise<void>((resolve) => inbox.listen(0, "127.0.0.1", resolve))
    try {
      const address = inbox.address()
      const port = isObject(address) ? address.port : 0
      bench.iam.controls.setWebhook(production, "music", { url: `http://127.0.0.1:${port}/` })
      const ready = await control("events", { actor: "si:deejay", org: "acme", named: true })
      expect(ready.json).toEqual({ event_type: "organization.silicon.removed.v1", status: 204 })
      const testing = { plane: bench.seeded.environment.plane, actor: "si:deejay", org: "acme" }
      expect(
        (await control("events", { ...testing, event_type: "organization.silicon.updated.v1" })).status
      ).toBe(200)
      expect(bodies.map((body): unknown => JSON.parse(body))).toMatchObject([
        { event_type: "organization.silicon.removed.v1" },
        { test: { metadata: { event_type: "organization.silicon.updated.v1" } } }
      ])
      expect((await control("events", {})).status).toBe(400)
    } finally {
      await new Promise((resolve) => inbox.close(resolve))
    }
  })

  it("add faults by name or in full, and clear them", async () => {
    const path = "/api/v1/oauth/introspect"
    const attempt = () => bench.production.introspect("x")
    expect((await control("faults", { path, method: "POST", fault: "serviceUnavailable" })).status).toBe(204)
    expect(outcome(await attempt())).toBe("503 service_unavailable")
    expect((await attempt()).status).toBe(200)
    const reply = { status: 418, headers: { "x-fault": "yes" }, body: { short: true } }
    await control("faults", { path, times: 2, fault: { kind: "reply", reply } })
    expect((await attempt()).headers["x-fault"]).toBe("yes")
    expect((await control("faults", undefined, "DELETE")).status).toBe(204)
    expect((await attempt()).status).toBe(200)
    for (const fault of [{ kind: "drop" }, { kind: "drop-after" }]) {
      await control("faults", { path, fault })
      await expect(attempt()).rejects.toThrow()
    }
    await control("faults", { path, fault: { kind: "delay", milliseconds: 1 } })
    expect((await attempt()).status).toBe(200)
    for (const fault of [
      undefined,
      "nothing",
      "toString",
      {},
      { kind: "delay" },
      { kind: "reply", reply: {} }
    ])
      expect((await control("faults", { fault })).status).toBe(400)
  })

  it("do not appear in the journal and are no part of the API", async () => {
    await control("slt")
    expect(bench.iam.seen).toEqual([])
    expect(outcome(await send(bench.iam.url, "POST", "/api/v1/_sandbox/slt"))).toBe("404 not_found")
  })
})

describe("faults of IAM", () => {
  it.each([
    [iamFaults.rateLimited(7), "429 rate_limited", "7"],
    [iamFaults.internalError(), "500 internal_error", undefined],
    [iamFaults.serviceUnavailable(), "503 service_unavailable", "5"],
    [iamFaults.providerUnavailable(), "503 provider_unavailable", "5"],
    [iamFaults.serverOverloaded(), "503 server_overloaded", "5"],
    [iamFaults.requestTimeout(), "504 request_timeout", undefined],
    [faults.html(), "403", undefined],
    [faults.redirect(), "302", undefined]
  ])("answer %#: %s", async (fault, expected, retryAfter) => {
    bench.iam.fail({ fault })
    const slt = bench.iam.controls.mintSlt("production", { appId: "music", actor: "si:deejay" })
    const answer = await bench.production.login(slt)
    expect(outcome(answer)).toBe(expected)
    expect(answer.headers["retry-after"]).toBe(retryAfter)
    expect((await bench.production.login(slt)).headers["idempotency-replayed"]).toBeUndefined()
  })
})

describe("the seeded state", () => {
  it("has the same people and applications in both planes, and different secrets", () => {
    const { environment, production: live } = bench.seeded
    for (const id of [live.plane, environment.plane]) {
      const plane = bench.iam.controls.plane(id)
      expect([...plane.memberships.keys()]).toEqual([
        "si:deejay[acme]",
        "si:lyra[acme]",
        "c:ana[acme]",
        "c:ana[zenith]"
      ])
      expect([...plane.apps.keys()]).toEqual(["music", "ting"])
    }
    const secrets = [live.musicSecret, live.tingSecret, environment.musicSecret, environment.tingSecret]
    expect(new Set(secrets).size).toBe(4)
    expect(environment.organizations.acme).not.toBe(live.organizations.acme)
  })

  it("records every credential that it issues or receives by control", async () => {
    const { iam, seeded } = bench
    const slt = iam.controls.mintSlt("production", { appId: "music", actor: "si:deejay" })
    const login = await bench.production.login(slt)
    const access = textAt(login.json, "access_token")
    const proof = await bench.production.exchange({ subject: access, key: key("minted") })
    const expected = [
      seeded.production.musicSecret,
      seeded.production.tingSecret,
      seeded.production.webhookSecret,
      seeded.environment.musicSecret,
      seeded.environment.tingSecret,
      seeded.environment.rootKey,
      slt,
      access,
      textAt(login.json, "refresh_token"),
      textAt(proof.json, "access_proof"),
      iam.controls.rotateSecret("production", "ting")
    ]
    expect(iam.minted).toEqual(expect.arrayContaining(expected))
    expect(new Set(iam.minted).size).toBe(iam.minted.length)
  })

  it("throws for invalid ids and names", () => {
    const { controls } = bench.iam
    expect(() => controls.addMembership("production", "si:deejay", "zenith")).toThrow("another organisation")
    expect(() => controls.addActor("production", "deejay")).toThrow("not a public id")
    expect(() => controls.addOrganization("production", "x")).toThrow("not an organisation handle")
    expect(() => controls.addApp("production", { appId: "Music", orgId: "music", scopes: [] })).toThrow(
      "not an app id"
    )
    expect(() => controls.importApp(bench.seeded.environment.plane, "nobody")).toThrow("no application")
    expect(() => controls.deleteEnvironment("production")).toThrow("cannot be deleted")
    expect(() =>
      controls.setWebhook("production", "music", { url: "http://127.0.0.1:1/", secret: "short" })
    ).toThrow()
  })
})

describe("the journal", () => {
  it("shows received requests with all headers, and the status of the answer", async () => {
    await loggedIn(bench)
    const [seen] = bench.iam.seen
    expect(seen).toMatchObject({ method: "POST", path: "/api/v1/app-auth/tokens", status: 200 })
    expect(seen?.headers.get("idempotency-key")).toHaveLength(1)
  })
})
