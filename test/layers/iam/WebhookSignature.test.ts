/** The verifier of webhooks: every form of a delivery, once. Forms of its headers are in test/world/Inputs.ts. */
import { Context, Effect, Layer, Option, Redacted, TestClock } from "effect"
import { expect } from "vitest"
import { signWebhook } from "../../../sandbox/upstreams/Iam.ts"
import { sha256 } from "../../../src/services/Digest.ts"
import type { IamService } from "../../../src/services/Iam.ts"
import { testWebhookSecret } from "../../world/Settings.ts"
import { sharing } from "../../world/Test.ts"
import { iamOver, startTime } from "./Simulated.ts"

const sentAt = startTime / 1_000
const eventId = "0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6a"

// The contract's vector W1, 554 bytes.
const w1 = `{"spec_version":"1.0","event_id":"0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6a","event_type":"organization.membership.removed.v1","occurred_at":"2026-09-25T10:15:30.123456Z","organization_id":"0199a0aa-0000-7000-8000-000000000001","aggregate":{"type":"organization_membership","id":"0199a0bb-0000-7000-8000-000000000002","version":4},"data":{"changed_fields":[],"current":{"members":[{"resource":{"type":"organization_membership","id":"0199a0bb-0000-7000-8000-000000000002","principal_type":"carbon","version":4,"status":"removed"},"authorization":"removed"}]}}}`
const w1Signature = "v1=47b0505acc2ff786333017811e22d22abb00a482aa7485539f52b59720f860d9"
const nextSecret = "the-next-webhook-secret-0123456789abcdef"

const sign = (body: string | Buffer, timestamp = String(sentAt), secret = testWebhookSecret) =>
  signWebhook(secret, timestamp, Buffer.from(body))

interface Changes {
  readonly keyVersion?: string
  readonly timestamp?: string
  readonly signature?: string
}

/** A delivery that is well signed but for the changes. */
const delivery = (body: string | Buffer, changes: Changes = {}) => {
  const { keyVersion = "1", timestamp = String(sentAt), signature = sign(body, timestamp) } = changes
  const headers = {
    Host: "backend.example",
    "X-Silicon-IAM-Event-ID": eventId,
    "X-Silicon-IAM-Timestamp": timestamp,
    "X-Silicon-IAM-Key-Version": keyVersion,
    "X-Silicon-IAM-Signature": signature
  }
  return { body: Buffer.from(body), rawHeaders: Object.entries(headers).flat() }
}
type Delivery = ReturnType<typeof delivery>

class Verifier extends Context.Tag("test/Verifier")<Verifier, Pick<IamService, "verifyWebhook">>() {}
const keys = new Map([testWebhookSecret, nextSecret].map((secret, at) => [at + 1, Redacted.make(secret)]))
const verifier = Layer.scoped(
  Verifier,
  Effect.zipRight(TestClock.setTime(startTime), iamOver("http://127.0.0.1:1", { webhookSecrets: keys }))
)
const verify = (sent: Delivery) => Effect.flatMap(Verifier, (iam) => iam.verifyWebhook(sent))
/** The failed check. */
const rejected = (sent: Delivery) =>
  Effect.match(verify(sent), { onSuccess: () => "accepted", onFailure: ({ reason }) => reason })

const w1With = (changes: object) => JSON.stringify({ ...JSON.parse(w1), ...changes })
/** W1 with so many bytes. */
const sized = (bytes: number) => {
  const empty = w1With({ data: { x: "" } })
  return empty.replace('"x":""', `"x":"${"x".repeat(bytes - empty.length)}"`)
}
const notUtf8 = Buffer.from(w1.replace("changed_fields", "changed_fieldX"))
notUtf8.writeUInt8(0xff, notUtf8.indexOf("X"))

const testingKey = "K".repeat(32)
const environmentId = "0199b000-0000-7000-8000-00000000000e"
const metadata = {
  environment_id: environmentId,
  generation: 1,
  spec_version: "1.0",
  event_id: eventId,
  event_type: "session.logout.v1",
  occurred_at: "2026-09-25T10:15:30Z",
  organization_id: null,
  aggregate: { type: "authentication_session", id: "0199a0bb-0000-7000-8000-000000000002", version: 2 }
}
const testing = (changes: object = {}, inTest: object = {}, outer: object = {}) =>
  JSON.stringify({
    test: { testing_key: testingKey, metadata: { ...metadata, ...changes }, data: { a: 1 }, ...inTest },
    ...outer
  })
const aggregate = (changes: object) => ({ aggregate: { ...metadata.aggregate, ...changes } })

const accepted: ReadonlyArray<Delivery> = [
  // Names of headers in any case, and a value that equals one.
  {
    ...delivery(w1),
    rawHeaders: delivery(w1).rawHeaders.map((text, at) => (at % 2 === 0 ? text.toLowerCase() : text))
  },
  { ...delivery(w1), rawHeaders: [...delivery(w1).rawHeaders, "x-other", "X-Silicon-IAM-Signature"] },
  delivery(w1, { keyVersion: "2", signature: sign(w1, String(sentAt), nextSecret) }),
  delivery(sized(1_048_576)),
  delivery(w1With({ occurred_at: "2026-09-25t10:15:30-02:30" })),
  delivery(w1With({ aggregate: { type: "x".repeat(255), id: "\u{1d538}".repeat(255), version: 1 } })),
  delivery(testing(aggregate({ environment_id: environmentId, generation: 1 })))
]

/** Members of W1 that are wrong, and such of the metadata and of the whole of a testing delivery. */
const ofW1 = `{"spec_version":"1.1"} {"event_id":"${environmentId}"} {"event_type":"carbon.updated"} {"event_type":"carbon..v1"}
  {"event_type":"carbon.updated.v01"} {"data":[]} {"aggregate":{"type":"carbon","id":"c:ana","version":0}}
  {"aggregate":{"type":"carbon","id":"c:\\u0000","version":1}} {"aggregate":{"type":"${"x".repeat(256)}","id":"c:ana","version":1}}
  {"occurred_at":"2026-13-25T10:15:30Z"} {"occurred_at":"2026-09-25T10:15:30"} {"organization_id":"acme"}`
const ofMetadata = `{"x":1} {"generation":0} {"environment_id":null,"generation":null} {"event_id":"${environmentId}"}`
const ofTest = `{"x":1} {"testing_key":"${"K".repeat(31)}"} {"testing_key":"${"K".repeat(31)}-"} {"testing_key":"${"K".repeat(33)}"} {"data":null}`
const changes = (rows: string): ReadonlyArray<object> => rows.split(/\s+/).map((row) => JSON.parse(row))
const bodies = [
  ...["{", `${w1}{}`, `\ufeff${w1}`, "null", '{"test":null}'],
  ...changes(ofW1).map(w1With),
  ...changes(ofMetadata).map((change) => testing(change)),
  ...changes(ofTest).map((change) => testing({}, change)),
  ...["generation", "organization_id"].map((name) => testing({ [name]: undefined })),
  testing({}, { testing_key: undefined }),
  testing({}, {}, JSON.parse(w1)),
  ...[{ environment_id: eventId }, { generation: 2 }].map((change) => testing(aggregate(change)))
]
/** The failed check, or any (undefined). */
const refused: ReadonlyArray<readonly [sent: Delivery, check?: string]> = [
  [delivery(sized(1_048_577)), "size"],
  [delivery(w1, { keyVersion: "3" }), "unknown key version"],
  [delivery(w1, { keyVersion: "2" }), "signature"],
  [delivery(`${w1} `, { signature: w1Signature }), "signature"],
  [delivery(w1, { timestamp: String(sentAt + 1), signature: w1Signature }), "signature"],
  [delivery(notUtf8), "JSON"],
  ...bodies.map((body) => [delivery(body)] as const)
]

sharing(verifier)("a delivery", (shared) => {
  shared.effect("is accepted as the contract's vector W1", function* () {
    expect([Buffer.from(w1).length, sign(w1)]).toEqual([554, w1Signature])
    expect(yield* verify(delivery(w1))).toEqual({
      testing: Option.none(),
      eventId,
      eventType: "organization.membership.removed.v1",
      occurredAt: "2026-09-25T10:15:30.123456Z",
      organisationUuid: "0199a0aa-0000-7000-8000-000000000001",
      aggregateType: "organization_membership",
      aggregateId: "0199a0bb-0000-7000-8000-000000000002",
      aggregateVersion: 4,
      data: JSON.parse(w1).data
    })
  })

  shared.effect("of a testing plane names it by digest and environment, and drops its key", function* () {
    for (const [body, id] of [
      [testing(), Option.some(environmentId)],
      [testing({ environment_id: undefined, generation: undefined }), Option.none()]
    ] as const) {
      const event = yield* verify(delivery(body))
      expect(event).toMatchObject({
        testing: Option.some({ environmentId: id, keyDigest: sha256(testingKey) }),
        eventType: "session.logout.v1",
        data: { a: 1 }
      })
      expect(JSON.stringify(event)).not.toContain(testingKey)
    }
  })

  shared.effect("may have either key, a mebibyte, and an environment in its aggregate", function* () {
    for (const sent of accepted) yield* verify(sent)
  })

  shared.effect("is rejected for its size, signature or content", function* () {
    for (const [sent, check] of refused) {
      const found = yield* rejected(sent)
      expect(found, String(sent.body).slice(0, 1_000)).not.toBe("accepted")
      if (check !== undefined) expect(found).toBe(check)
    }
  })

  shared.effect("may have unknown members, and no organisation", function* () {
    const body = w1With({ organization_id: undefined, later: {}, data: {} })
    const data = `{"__proto__":{"polluted":true},"n":1}`
    const event = yield* verify(delivery(body.replace(`"data":{}`, `"data":${data}`)))
    expect([event.organisationUuid, JSON.stringify(event.data)]).toEqual([null, data])
    expect(Reflect.get({}, "polluted")).toBeUndefined()
  })

  shared.effect("is accepted 300 seconds early or late, not 301", function* () {
    for (const [millis, tag] of [
      [-301_000, "Failure"],
      [-300_000, "Success"],
      [300_000, "Success"],
      [300_999, "Success"],
      [301_000, "Failure"]
    ] as const) {
      yield* TestClock.setTime(startTime + millis)
      expect([millis, (yield* Effect.exit(verify(delivery(w1))))._tag]).toEqual([millis, tag])
    }
  })
})
