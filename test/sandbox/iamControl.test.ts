import { createServer } from "node:http"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { production } from "../../sandbox/upstreams/Iam.ts"
import { type Bench, isObject, key, outcome, send, startBench, textAt } from "./iamClient.ts"

let bench: Bench
beforeEach(async () => {
  bench = await startBench()
})
afterEach(() => bench.iam.close())

const control = (path: string, body: unknown = undefined) =>
  send(bench.iam.url, "POST", `/_sandbox/${path}`, {}, body === undefined ? "" : JSON.stringify(body))

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

  it("inject a named fault", async () => {
    const path = "/api/v1/oauth/introspect"
    const attempt = () => bench.production.introspect("x")
    expect((await control("faults", { path, times: 2, fault: "serviceUnavailable" })).status).toBe(204)
    for (const _ of [1, 2]) expect(outcome(await attempt())).toBe("503 service_unavailable")
    expect((await attempt()).status).toBe(200)
    for (const body of [{}, { fault: "toString" }, { times: 0, fault: "rateLimited" }])
      expect((await control("faults", body)).status).toBe(400)
  })
})

describe("minted credentials", () => {
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
})
