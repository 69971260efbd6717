import { createHmac } from "node:crypto"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { type IamEvent, type SignedWebhook, signWebhook } from "../../sandbox/upstreams/Iam.ts"
import { sha256 } from "../../sandbox/upstreams/iam/Identifiers.ts"
import { type Bench, startBench } from "./iamClient.ts"

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

const url = "http://127.0.0.1:9/webhook/"

let bench: Bench
beforeEach(async () => {
  bench = await startBench()
  bench.iam.controls.setWebhook("production", "music", { url })
})
afterEach(() => bench.iam.close())

const event = (id: string, more: Partial<IamEvent> = {}): IamEvent => ({
  eventType: "carbon.updated.v1",
  appId: "music",
  eventId: id,
  aggregate: { type: "carbon", id: "c:ana", version: 1 },
  ...more
})

const parsed = (body: Buffer | string): unknown => JSON.parse(body.toString())

describe("vector W1", () => {
  it("is reproduced, byte for byte", () => {
    const { controls } = bench.iam
    bench.clock.time = vector.timestamp * 1000
    controls.setWebhook("production", "music", { url, secret: vector.secret, keyVersion: 1 })
    const built = controls.buildWebhook("production", vectorEvent)
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

  it("wrap testing events in the strict form, under the inherited production secret", () => {
    const { controls } = bench.iam
    const { environmentId, rootKey } = bench.seeded.environment
    const built = controls.buildWebhook(environmentId, event("0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6a"))
    expect(built.url).toBe(url)
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
    const older = controls.buildWebhook(environmentId, event(metadata.event_id), { withoutEnvironment: true })
    expect(parsed(older.body)).toEqual({ test: { testing_key: rootKey, metadata, data: {} } })
  })

  it("have their own secret after the test webhook was replaced", () => {
    const { controls } = bench.iam
    const { environmentId } = bench.seeded.environment
    const own = controls.setWebhook(environmentId, "music", { url })
    expect(own).toMatchObject({ keyVersion: 2 })
    expect(own.secret).not.toBe(bench.seeded.production.webhookSecret)
    expect(verified(controls.buildWebhook(environmentId, event("one")), own.secret)).toBe(true)
  })
})

describe("ready-made events", () => {
  it("contain a removal as a tombstone without the person, or as a row with the person", () => {
    const { controls } = bench.iam
    const membership = controls.removeMembership("production", "c:ana", "acme")
    const removed = controls.events.membershipRemoved("production", "c:ana", "acme")
    expect(removed).toMatchObject({
      eventType: "organization.membership.removed.v1",
      organizationId: bench.seeded.production.organizations.acme,
      aggregate: { type: "organization_membership", id: membership.id, version: 2 }
    })
    expect(JSON.stringify(removed)).not.toContain("c:ana")
    const named = controls.events.membershipRemoved("production", "c:ana", "acme", { named: true })
    expect(named.data).toMatchObject({
      current: { members: [{ resource: { status: "removed" }, principal: { public_id: "c:ana" } }] }
    })
    controls.removeMembership("production", "si:deejay", "acme")
    const silicon = controls.events.membershipRemoved("production", "si:deejay", "acme")
    expect(silicon.eventType).toBe("organization.silicon.removed.v1")
  })
})
