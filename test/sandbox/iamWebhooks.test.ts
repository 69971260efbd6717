import { createHmac } from "node:crypto"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import {
  type IamEvent,
  type SignedWebhook,
  seedWorld,
  signWebhook,
  startIam
} from "../../sandbox/upstreams/Iam.ts"
import { sha256 } from "../../sandbox/upstreams/iam/Grammar.ts"
import { type Bench, loggedIn, startBench } from "./iamClient.ts"

const vector = {
  secret: "example-webhook-secret-0123456789abcdef",
  timestamp: 1_790_331_330,
  body: '{"spec_version":"1.0","event_id":"0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6a","event_type":"organization.membership.removed.v1","occurred_at":"2026-09-25T10:15:30.123456Z","organization_id":"0199a0aa-0000-7000-8000-000000000001","aggregate":{"type":"organization_membership","id":"0199a0bb-0000-7000-8000-000000000002","version":4},"data":{"changed_fields":[],"current":{"members":[{"resource":{"type":"organization_membership","id":"0199a0bb-0000-7000-8000-000000000002","principal_type":"carbon","version":4,"status":"removed"},"authorization":"removed"}]}}}',
  signature: "v1=47b0505acc2ff786333017811e22d22abb00a482aa7485539f52b59720f860d9"
} as const

const vectorEvent: IamEvent = {
  eventType: "organization.membership.removed.v1",
  eventId: "0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6a",
  occurredAt: "2026-09-25T10:15:30.123456Z",
  organizationId: "0199a0aa-0000-7000-8000-000000000001",
  aggregate: { type: "organization_membership", id: "0199a0bb-0000-7000-8000-000000000002", version: 4 },
  data: {
    changed_fields: [],
    current: {
      members: [
        {
          resource: {
            type: "organization_membership",
            id: "0199a0bb-0000-7000-8000-000000000002",
            principal_type: "carbon",
            version: 4,
            status: "removed"
          },
          authorization: "removed"
        }
      ]
    }
  }
}

interface Received {
  readonly headers: IncomingMessage["headers"]
  readonly body: string
}

/** An inbox that answers what it is told to, 204 when it is told nothing. */
const startInbox = async () => {
  const received: Array<Received> = []
  const answers: Array<number | ((response: ServerResponse) => void)> = []
  const server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      received.push({ headers: request.headers, body: Buffer.concat(chunks).toString("utf8") })
      const answer = answers.shift() ?? 204
      if (typeof answer === "function") answer(response)
      else response.writeHead(answer, answer === 302 ? { location: "/elsewhere" } : {}).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const address: AddressInfo | string | null = server.address()
  const port = typeof address === "object" && address !== null ? address.port : 0
  return {
    url: `http://127.0.0.1:${port}/webhook/`,
    received,
    answers,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      })
  }
}

let bench: Bench
let inbox: Awaited<ReturnType<typeof startInbox>>
beforeEach(async () => {
  bench = await startBench()
  inbox = await startInbox()
  bench.iam.world.setWebhook("production", "music", { url: inbox.url })
})
afterEach(async () => {
  await bench.iam.close()
  await inbox.close()
})

const event = (id: string, more: Partial<IamEvent> = {}): IamEvent => ({
  eventType: "carbon.updated.v1",
  appId: "music",
  eventId: id,
  aggregate: { type: "carbon", id: "c:ana", version: 1 },
  ...more
})

const parsed = (body: Buffer | string): unknown => JSON.parse(body.toString())
const receivedIds = () => inbox.received.map(({ headers }) => headers["x-silicon-iam-event-id"])

describe("vector W1", () => {
  it("is reproduced, byte for byte", () => {
    const { world } = bench.iam
    world.rotateWebhookSecret("production", "music", vector.secret)
    const built = world.buildWebhook("production", vectorEvent, {
      timestamp: vector.timestamp,
      keyVersion: 1
    })
    expect(built.body.length).toBe(554)
    expect(built.body.toString()).toBe(vector.body)
    expect(sha256(built.body)).toBe("055d8860c2059b2cc4e1c75d58de2204653bdffc685cac73f95eb2fa5d9afa40")
    expect(built.headers).toEqual({
      "Content-Type": "application/json",
      "User-Agent": "silicon-iam/4.0.0",
      "X-Silicon-IAM-Event-ID": "0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6a",
      "X-Silicon-IAM-Timestamp": "1790331330",
      "X-Silicon-IAM-Key-Version": "1",
      "X-Silicon-IAM-Signature": vector.signature
    })
  })

  it("changes with the bytes, the timestamp's text and the secret", () => {
    const body = Buffer.from(vector.body)
    expect(signWebhook(vector.secret, "1790331330", body)).toBe(vector.signature)
    for (const [secret, timestamp, bytes] of [
      [vector.secret, "1790331330", Buffer.from(`${vector.body} `)],
      [vector.secret, "+1790331330", body],
      [vector.secret, "01790331330", body],
      [`${vector.secret}0`, "1790331330", body]
    ] as const)
      expect(signWebhook(secret, timestamp, bytes)).not.toBe(vector.signature)
  })
})

describe("signed requests", () => {
  const verified = (webhook: SignedWebhook, secret: string) => {
    const timestamp = webhook.headers["X-Silicon-IAM-Timestamp"] ?? ""
    const digest = createHmac("sha256", secret).update(`${timestamp}.`).update(webhook.body).digest("hex")
    return webhook.headers["X-Silicon-IAM-Signature"] === `v1=${digest}`
  }

  it("use the current secret and version, unless told otherwise", () => {
    const { world } = bench.iam
    const { webhookSecret } = bench.seeded.production
    const built = world.buildWebhook("production", event("one"))
    expect(built.url).toBe(inbox.url)
    expect(verified(built, webhookSecret)).toBe(true)
    expect(built.headers["X-Silicon-IAM-Key-Version"]).toBe("1")
    const rotated = world.rotateWebhookSecret("production", "music")
    const next = world.buildWebhook("production", event("one"))
    expect(verified(next, rotated.secret)).toBe(true)
    expect(next.headers["X-Silicon-IAM-Key-Version"]).toBe("2")
    const forged = world.buildWebhook("production", event("one"), { secret: webhookSecret, keyVersion: 9 })
    expect(verified(forged, webhookSecret)).toBe(true)
    expect(forged.headers["X-Silicon-IAM-Key-Version"]).toBe("9")
  })

  it("wrap testing events, strictly, under the inherited production secret", () => {
    const { world } = bench.iam
    const { environmentId, rootKey } = bench.seeded.environment
    const built = world.buildWebhook(environmentId, event("0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6a"))
    expect(built.url).toBe(inbox.url)
    expect(verified(built, bench.seeded.production.webhookSecret)).toBe(true)
    const metadata = {
      spec_version: "1.0",
      event_id: "0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6a",
      event_type: "carbon.updated.v1",
      occurred_at: "2026-09-25T10:15:30Z",
      organization_id: null,
      aggregate: { type: "carbon", id: "c:ana", version: 1 }
    }
    expect(parsed(built.body)).toEqual({
      test: {
        testing_key: rootKey,
        metadata: { environment_id: environmentId, generation: 1, ...metadata },
        data: {}
      }
    })
    const older = world.buildWebhook(environmentId, event(metadata.event_id), { withoutEnvironment: true })
    expect(parsed(older.body)).toEqual({ test: { testing_key: rootKey, metadata, data: {} } })
  })

  it("have a secret of their own once the test webhook is replaced", () => {
    const { world } = bench.iam
    const { environmentId } = bench.seeded.environment
    const own = world.setWebhook(environmentId, "music", { url: inbox.url })
    expect(own).toMatchObject({ keyVersion: 2 })
    expect(own.secret).not.toBe(bench.seeded.production.webhookSecret)
    expect(verified(world.buildWebhook(environmentId, event("one")), own.secret)).toBe(true)
  })
})

describe("ready-made events", () => {
  it("tell a removal as a tombstone that names nobody, or with the person", () => {
    const { world } = bench.iam
    const membership = world.removeMembership("production", "c:ana", "acme")
    const removed = world.events.membershipRemoved("production", "c:ana", "acme")
    expect(removed).toMatchObject({
      eventType: "organization.membership.removed.v1",
      organizationId: bench.seeded.production.organizations.acme,
      aggregate: { type: "organization_membership", id: membership.id, version: 2 }
    })
    expect(JSON.stringify(removed)).not.toContain("c:ana")
    const named = world.events.membershipRemoved("production", "c:ana", "acme", { named: true })
    expect(named.data).toMatchObject({
      current: { members: [{ resource: { status: "removed" }, principal: { public_id: "c:ana" } }] }
    })
    world.removeMembership("production", "si:deejay", "acme")
    const silicon = world.events.membershipRemoved("production", "si:deejay", "acme")
    expect(silicon.eventType).toBe("organization.silicon.removed.v1")
  })

  it("tell changes of members, of Carbons, and logouts", async () => {
    const { world } = bench.iam
    expect(world.events.membershipUpdated("production", "si:lyra", "acme").eventType).toBe(
      "organization.silicon.updated.v1"
    )
    expect(world.events.membershipUpdated("production", "c:ana", "acme").data).toMatchObject({
      changed_fields: ["membership.tags"]
    })
    expect(world.events.carbonUpdated("production", "c:ana")).toMatchObject({
      organizationId: null,
      aggregate: { type: "carbon", id: "c:ana" },
      data: { current: { carbon_id: "c:ana" } }
    })
    await loggedIn(bench, "c:ana")
    world.revokeSession("production", "c:ana")
    const session = world.sessionsOf("production", "c:ana")[0]?.id ?? ""
    expect(world.events.sessionLogout("production", session, "music")).toMatchObject({
      eventType: "session.logout.v1",
      aggregate: { type: "authentication_session", id: session, version: 2 },
      data: { subject_id: "c:ana", actor: { application_id: "music" } }
    })
  })
})

describe("recipients", () => {
  const to = (planeEvent: IamEvent) =>
    bench.iam.world.emit("production", planeEvent).map(({ appId }) => appId)

  it("are the applications with a login that reaches the organisation", async () => {
    const { world } = bench.iam
    const removed = () => world.events.membershipRemoved("production", "c:ana", "acme")
    expect(to(removed())).toEqual([])
    await loggedIn(bench, "c:ana", { orgs: ["zenith"] })
    expect(to(removed())).toEqual([])
    expect(to(world.events.carbonUpdated("production", "c:ana"))).toEqual(["music"])
    await loggedIn(bench, "si:deejay")
    expect(to(removed())).toEqual(["music"])
    world.disableApp("production", "music")
    expect(to(removed())).toEqual([])
  })

  it("follow the subscription, but for logouts and events of the application itself", async () => {
    const { world } = bench.iam
    await loggedIn(bench, "c:ana")
    const session = world.sessionsOf("production", "c:ana")[0]?.id ?? ""
    world.setWebhookScope("production", "music", ["membership"])
    expect(to(world.events.membershipRemoved("production", "c:ana", "acme"))).toEqual(["music"])
    expect(to(world.events.membershipUpdated("production", "c:ana", "acme"))).toEqual([])
    expect(to(world.events.sessionLogout("production", session))).toEqual(["music"])
    const own = { type: "application", id: "music", version: 1 }
    expect(to({ eventType: "application.updated.v1", aggregate: own })).toEqual(["music"])
    world.setWebhookScope("production", "music", ["trust"])
    expect(to(world.events.membershipRemoved("production", "c:ana", "acme"))).toEqual([])
  })

  it("need the extra scope of some events, and never get the Silicon-only ones", async () => {
    const { world } = bench.iam
    await loggedIn(bench)
    const organizationId = bench.seeded.production.organizations.acme
    const updated = { eventType: "organization.updated.v1", organizationId }
    expect(to(updated)).toEqual([])
    world.setApprovedScopes("production", "music", ["self.identity.read", "self.organizations.read"])
    expect(to(updated)).toEqual(["music"])
    for (const eventType of [
      "organization.membership.profile_updated.v1",
      "organization.silicon.rotation_requested.v1",
      "organization.silicon.webhook.configured.v1",
      "organization.silicon.webhook_subscription.updated.v1",
      "sso.connection.activated.v1"
    ])
      expect(to({ eventType, organizationId })).toEqual([])
  })
})

describe("delivery", () => {
  it("sends what buildWebhook signs, and only when told to", async () => {
    const { world } = bench.iam
    const [delivery] = world.emit("production", event("one"))
    expect(inbox.received).toEqual([])
    expect(await world.deliverDue()).toEqual([delivery])
    expect(delivery).toMatchObject({ status: "delivered", attempts: [{ result: { status: 204 } }] })
    const built = world.buildWebhook("production", event("one"))
    expect(inbox.received[0]?.body).toBe(built.body.toString())
    for (const [name, value] of Object.entries(built.headers))
      expect(inbox.received[0]?.headers[name.toLowerCase()]).toBe(value)
    expect(await world.deliverDue()).toEqual([])
  })

  it("retries 408, 425, 429, 5xx and lost connections, with the same event and a new signature", async () => {
    const { world } = bench.iam
    const drop = (response: ServerResponse) => response.socket?.destroy()
    inbox.answers.push(408, 425, 429, 500, 503, drop, 200)
    const [delivery] = world.emit("production", event("one"))
    for (let attempt = 1; attempt <= 6; attempt += 1) {
      await world.deliverDue()
      const wait = (delivery?.nextAttemptAt ?? 0) - bench.clock.time
      expect(delivery?.status).toBe("pending")
      expect(wait).toBeGreaterThanOrEqual(750 * 2 ** (attempt - 1))
      expect(wait).toBeLessThanOrEqual(1250 * 2 ** (attempt - 1))
      bench.clock.time += wait - 1
      expect(await world.deliverDue()).toEqual([])
      bench.clock.time += 1
    }
    await world.deliverDue()
    expect(delivery?.status).toBe("delivered")
    expect(new Set(inbox.received.map(({ body }) => body)).size).toBe(1)
    const signatures = inbox.received.map(({ headers }) => headers["x-silicon-iam-signature"])
    expect(signatures).toHaveLength(7)
    expect(signatures.at(-1)).not.toBe(signatures[0])
  })

  it.each([302, 400, 401, 403, 404, 410])("dead-letters %i at once", async (status) => {
    inbox.answers.push(status)
    const [delivery] = bench.iam.world.emit("production", event("one"))
    await bench.iam.world.deliverDue()
    expect(delivery).toMatchObject({ status: "dead", attempts: [{ result: { status } }] })
    expect(bench.iam.world.deadLetters()).toEqual([delivery])
    expect(inbox.received).toHaveLength(1)
  })

  it("gives up after 20 attempts, the waits never over 300 s and a quarter", async () => {
    const { world } = bench.iam
    inbox.answers.push(...Array.from({ length: 20 }, () => 500))
    const [delivery] = world.emit("production", event("one"))
    let longest = 0
    for (let attempt = 0; attempt < 20; attempt += 1) {
      await world.deliverDue()
      longest = Math.max(longest, (delivery?.nextAttemptAt ?? 0) - bench.clock.time)
      bench.clock.time += 375_000
    }
    expect(delivery?.attempts).toHaveLength(20)
    expect(delivery?.status).toBe("dead")
    expect(longest).toBeGreaterThanOrEqual(225_000)
    expect(longest).toBeLessThanOrEqual(375_000)
  })

  it("keeps the order of one aggregate and lets others pass", async () => {
    const { world } = bench.iam
    const other = { type: "carbon", id: "c:bob", version: 1 }
    inbox.answers.push(503)
    world.emit("production", event("first"))
    world.emit("production", event("second"))
    world.emit("production", event("other", { aggregate: other }))
    await world.deliverDue()
    expect(receivedIds()).toEqual(["first", "other"])
    bench.clock.time += 1250
    await world.deliverDue()
    expect(receivedIds()).toEqual(["first", "other", "first", "second"])
  })

  it("lets the next event go once the older one is a dead letter", async () => {
    const { world } = bench.iam
    inbox.answers.push(400)
    world.emit("production", event("first"))
    world.emit("production", event("second"))
    await world.deliverDue()
    expect(receivedIds()).toEqual(["first", "second"])
  })

  it("replays a dead letter with the same event under the current secret", async () => {
    const { world } = bench.iam
    inbox.answers.push(400)
    const [delivery] = world.emit("production", event("one"))
    await world.deliverDue()
    world.rotateWebhookSecret("production", "music")
    bench.clock.time += 5000
    if (delivery !== undefined) world.replayDelivery(delivery)
    await world.deliverDue()
    expect(delivery?.status).toBe("delivered")
    expect(inbox.received[1]?.body).toBe(inbox.received[0]?.body)
    expect(inbox.received[1]?.headers["x-silicon-iam-key-version"]).toBe("2")
  })

  it("counts silence, a response that is too large and a closed port as network failures", async () => {
    const iam = await startIam({
      now: () => bench.clock.time,
      webhookLimits: { connectMilliseconds: 2000, totalMilliseconds: 200, responseBytes: 1024 }
    })
    try {
      seedWorld(iam.world, { webhookUrl: inbox.url })
      inbox.answers.push(
        () => undefined,
        (response) => response.writeHead(200).end("x".repeat(1025))
      )
      const [delivery] = iam.world.emit("production", event("one"))
      for (const reason of ["timeout", "response too large", "ECONNREFUSED"]) {
        if (reason === "ECONNREFUSED")
          iam.world.setWebhook("production", "music", { url: "http://127.0.0.1:1/" })
        await iam.world.deliverDue()
        expect(delivery?.status).toBe("pending")
        const last = delivery?.attempts.at(-1)?.result
        expect(last !== undefined && "error" in last ? last.error : "").toContain(reason)
        bench.clock.time += 60_000
      }
    } finally {
      await iam.close()
    }
  })

  it("ends with the environment it belongs to", async () => {
    const { world } = bench.iam
    const [delivery] = world.emit(bench.seeded.environment.environmentId, event("one"))
    world.deleteEnvironment(bench.seeded.environment.environmentId)
    await world.deliverDue()
    expect(delivery?.status).toBe("dead")
    expect(inbox.received).toEqual([])
  })
})
