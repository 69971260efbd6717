import { createHmac } from "node:crypto"
import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { makeWebhookVerifier } from "../../../src/layers/iam/WebhookSignature.ts"
import { production as productionId } from "../../../sandbox/upstreams/Iam.ts"
import { sha256 } from "../../../src/services/Digest.ts"
import { testWebhookSecret } from "../../support/Settings.ts"
import { iamWorld } from "./Simulated.ts"

const sentAt = 1_790_331_330
const eventId = "0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6a"

// The contract's vector W1, 554 bytes.
const w1 = `{"spec_version":"1.0","event_id":"0199a0c4-5e2b-7a10-8c3d-1f2e3d4c5b6a","event_type":"organization.membership.removed.v1","occurred_at":"2026-09-25T10:15:30.123456Z","organization_id":"0199a0aa-0000-7000-8000-000000000001","aggregate":{"type":"organization_membership","id":"0199a0bb-0000-7000-8000-000000000002","version":4},"data":{"changed_fields":[],"current":{"members":[{"resource":{"type":"organization_membership","id":"0199a0bb-0000-7000-8000-000000000002","principal_type":"carbon","version":4,"status":"removed"},"authorization":"removed"}]}}}`
const w1Signature = "v1=47b0505acc2ff786333017811e22d22abb00a482aa7485539f52b59720f860d9"

const names = {
  eventId: "X-Silicon-IAM-Event-ID",
  timestamp: "X-Silicon-IAM-Timestamp",
  keyVersion: "X-Silicon-IAM-Key-Version",
  signature: "X-Silicon-IAM-Signature"
}

const sign = (body: string | Uint8Array, timestamp = String(sentAt), secret = testWebhookSecret) =>
  `v1=${createHmac("sha256", secret).update(`${timestamp}.`).update(body).digest("hex")}`

interface Headers {
  readonly eventId: string
  readonly timestamp: string
  readonly keyVersion: string
  readonly signature: string
}

const rawHeaders = (headers: Headers): ReadonlyArray<string> => [
  "Host",
  "backend.example",
  names.eventId,
  headers.eventId,
  names.timestamp,
  headers.timestamp,
  names.keyVersion,
  headers.keyVersion,
  names.signature,
  headers.signature
]

const delivery = (body: string | Uint8Array, changes: Partial<Headers> = {}) => ({
  body: typeof body === "string" ? Buffer.from(body) : body,
  rawHeaders: rawHeaders({
    eventId,
    timestamp: String(sentAt),
    keyVersion: "1",
    signature: sign(body, changes.timestamp),
    ...changes
  })
})

const verify = makeWebhookVerifier(
  new Map([
    [1, Redacted.make(testWebhookSecret)],
    [2, Redacted.make("the-next-webhook-secret-0123456789abcdef")]
  ])
)

const rejected = (sent: Parameters<typeof verify>[0]) =>
  Effect.map(Effect.flip(verify(sent)), ({ reason }) => reason)

const atTheTime = (name: string, effect: () => Effect.Effect<void, unknown>) =>
  it.effect(name, () => Effect.zipRight(TestClock.setTime(sentAt * 1000), effect()))

const w1With = (changes: object) => JSON.stringify({ ...JSON.parse(w1), ...changes })

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

describe("a production delivery", () => {
  atTheTime("is accepted as the contract's vector W1", () =>
    Effect.gen(function* () {
      assert.lengthOf(Buffer.from(w1), 554)
      assert.strictEqual(sign(w1), w1Signature)
      const event = yield* verify(delivery(w1, { signature: w1Signature }))
      deepStrictEqual(event, {
        plane: { _tag: "Production" },
        eventId,
        eventType: "organization.membership.removed.v1",
        occurredAt: "2026-09-25T10:15:30.123456Z",
        organisationUuid: Option.some("0199a0aa-0000-7000-8000-000000000001"),
        aggregate: {
          type: "organization_membership",
          id: "0199a0bb-0000-7000-8000-000000000002",
          version: 4
        },
        data: JSON.parse(w1).data
      })
    })
  )

  atTheTime("may have header names in any case, and be signed with the other known key", () =>
    Effect.gen(function* () {
      const { body, rawHeaders } = delivery(w1, {
        keyVersion: "2",
        signature: sign(w1, String(sentAt), "the-next-webhook-secret-0123456789abcdef")
      })
      const lower = rawHeaders.map((text, index) => (index % 2 === 0 ? text.toLowerCase() : text))
      yield* verify({ body, rawHeaders: lower })
    })
  )

  atTheTime("is not affected by a header value that equals a header's name", () =>
    verify({ ...delivery(w1), rawHeaders: [...delivery(w1).rawHeaders, "x-other", names.signature] })
  )

  for (const name of Object.values(names))
    atTheTime(`needs ${name} exactly once`, () =>
      Effect.gen(function* () {
        const { body, rawHeaders } = delivery(w1)
        const at = rawHeaders.indexOf(name)
        const without = rawHeaders.filter((_, index) => index !== at && index !== at + 1)
        const twice = [...rawHeaders, name.toLowerCase(), rawHeaders[at + 1] ?? ""]
        assert.strictEqual(yield* rejected({ body, rawHeaders: without }), name.toLowerCase())
        assert.strictEqual(yield* rejected({ body, rawHeaders: twice }), name.toLowerCase())
      })
    )

  const malformed: ReadonlyArray<readonly [string, keyof Headers, ReadonlyArray<string>]> = [
    [
      "an event id that is no canonical UUID",
      "eventId",
      [eventId.toUpperCase(), eventId.replaceAll("-", ""), `{${eventId}}`, "", ` ${eventId}`, `${eventId}\n`]
    ],
    [
      "a timestamp that is no canonical positive integer",
      "timestamp",
      [
        `+${sentAt}`,
        `0${sentAt}`,
        `-${sentAt}`,
        `${sentAt}.0`,
        "1.790331330e9",
        "0",
        "",
        "9".repeat(400),
        `${sentAt} `
      ]
    ],
    [
      "a key version that is no canonical positive integer",
      "keyVersion",
      ["01", "+1", "0", "-1", "1.0", "", "one"]
    ],
    [
      "a signature of another form",
      "signature",
      [
        w1Signature.slice(3),
        w1Signature.toUpperCase(),
        `v1=${w1Signature.slice(3).toUpperCase()}`,
        `v2=${w1Signature.slice(3)}`,
        w1Signature.slice(0, -1),
        `${w1Signature}0`,
        `${w1Signature},${w1Signature}`,
        ""
      ]
    ]
  ]
  for (const [name, field, values] of malformed)
    atTheTime(`is rejected for ${name}`, () =>
      Effect.forEach(
        values,
        (value) =>
          Effect.map(rejected(delivery(w1, { [field]: value })), (reason) =>
            assert.strictEqual(reason, names[field].toLowerCase(), value)
          ),
        { discard: true }
      )
    )

  it.effect("is accepted 300 seconds early or late, not 301", () =>
    Effect.gen(function* () {
      for (const [millis, accepted] of [
        [300_000, true],
        [300_999, true],
        [301_000, false],
        [-300_000, true],
        [-301_000, false]
      ] as const) {
        yield* TestClock.setTime(sentAt * 1000 + millis)
        const exit = yield* Effect.exit(verify(delivery(w1)))
        assert.strictEqual(exit._tag === "Success", accepted, String(millis))
      }
    })
  )

  atTheTime("is at most 1 MiB long", () =>
    Effect.gen(function* () {
      const long = (bytes: number) =>
        w1With({ data: { x: "" } }).replace(
          `"x":""`,
          `"x":"${"x".repeat(bytes - w1With({ data: { x: "" } }).length)}"`
        )
      yield* verify(delivery(long(1_048_576)))
      assert.strictEqual(yield* rejected(delivery(long(1_048_577))), "size")
    })
  )

  atTheTime("is rejected for a key version that is not known, or another key's signature", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* rejected(delivery(w1, { keyVersion: "3" })), "unknown key version")
      assert.strictEqual(yield* rejected(delivery(w1, { keyVersion: "2" })), "signature")
    })
  )

  atTheTime("is rejected with one appended space, or another timestamp than was signed", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* rejected(delivery(`${w1} `, { signature: w1Signature })), "signature")
      assert.strictEqual(
        yield* rejected(delivery(w1, { timestamp: String(sentAt + 1), signature: w1Signature })),
        "signature"
      )
    })
  )

  it.effect.prop(
    "is rejected with any byte of its body changed",
    [FastCheck.nat(553), FastCheck.integer({ min: 1, max: 255 })],
    ([at, flip]) =>
      Effect.gen(function* () {
        yield* TestClock.setTime(sentAt * 1000)
        const body = Buffer.from(w1)
        body.writeUInt8(body.readUInt8(at) ^ flip, at)
        assert.strictEqual(yield* rejected(delivery(body, { signature: w1Signature })), "signature")
      })
  )

  it.effect.prop(
    "is rejected with any character of its signature changed",
    [FastCheck.nat(66), FastCheck.string({ minLength: 1, maxLength: 1, unit: "binary-ascii" })],
    ([at, character]) =>
      Effect.gen(function* () {
        FastCheck.pre(w1Signature[at] !== character)
        yield* TestClock.setTime(sentAt * 1000)
        const signature = w1Signature.slice(0, at) + character + w1Signature.slice(at + 1)
        yield* rejected(delivery(w1, { signature }))
      })
  )

  const wrong: Readonly<Record<string, string>> = {
    "no JSON": "{",
    "JSON and more": `${w1}{}`,
    "a byte order mark": `\ufeff${w1}`,
    "a list": `[${w1}]`,
    null: "null",
    "another specification": w1With({ spec_version: "1.1" }),
    "a number for the specification": w1With({ spec_version: 1 }),
    "another event id than its header": w1With({ event_id: environmentId }),
    "an event id in upper case": w1With({ event_id: eventId.toUpperCase() }),
    "a type of one part": w1With({ event_type: "v1" }),
    "a type without a version": w1With({ event_type: "carbon.updated" }),
    "a type of version 0": w1With({ event_type: "carbon.updated.v0" }),
    "a type of version 01": w1With({ event_type: "carbon.updated.v01" }),
    "a type in upper case": w1With({ event_type: "Carbon.updated.v1" }),
    "a type with an empty part": w1With({ event_type: "carbon..v1" }),
    "data that is a list": w1With({ data: [] }),
    "no data": w1With({ data: undefined }),
    "an aggregate that is text": w1With({ aggregate: "carbon" }),
    "an aggregate without a type": w1With({ aggregate: { id: "a", version: 1, type: "" } }),
    "an aggregate without an id": w1With({ aggregate: { type: "carbon", version: 1 } }),
    "an aggregate of version 0": w1With({ aggregate: { type: "carbon", id: "c:ana", version: 0 } }),
    "an aggregate of version 1.5": w1With({ aggregate: { type: "carbon", id: "c:ana", version: 1.5 } }),
    "an invalid time": w1With({ occurred_at: "2026-13-25T10:15:30Z" }),
    "a time without a zone": w1With({ occurred_at: "2026-09-25T10:15:30" }),
    "a time as a number": w1With({ occurred_at: sentAt }),
    "an organisation by its handle": w1With({ organization_id: "acme" })
  }
  for (const [name, body] of Object.entries(wrong))
    atTheTime(`is rejected for ${name}, though well signed`, () => Effect.asVoid(rejected(delivery(body))))

  atTheTime("is rejected when it is not UTF-8, though well signed", () =>
    Effect.gen(function* () {
      const body = Buffer.from(w1.replace("changed_fields", "changed_fieldX"))
      body.writeUInt8(0xff, body.indexOf("X"))
      assert.strictEqual(yield* rejected(delivery(body)), "JSON")
    })
  )

  atTheTime("may have unknown members, no organisation, and an identity as its aggregate", () =>
    Effect.gen(function* () {
      const aggregate = { type: "carbon", id: "c:ana", version: 6, later: true }
      for (const organization_id of [null, undefined]) {
        const event = yield* verify(delivery(w1With({ organization_id, aggregate, later: {} })))
        assert.isTrue(Option.isNone(event.organisationUuid))
        deepStrictEqual(event.aggregate, { type: "carbon", id: "c:ana", version: 6 })
      }
    })
  )

  atTheTime("keeps its data as it was sent", () =>
    Effect.gen(function* () {
      const body = w1With({ data: {} }).replace(`"data":{}`, `"data":{"__proto__":{"polluted":true},"n":1}`)
      const { data } = yield* verify(delivery(body))
      assert.strictEqual(JSON.stringify(data), `{"__proto__":{"polluted":true},"n":1}`)
      assert.isUndefined(Reflect.get({}, "polluted"))
    })
  )
})

describe("a testing delivery", () => {
  atTheTime("names its plane by digest and environment, and drops its key", () =>
    Effect.gen(function* () {
      const event = yield* verify(delivery(testing()))
      deepStrictEqual(event, {
        plane: {
          _tag: "Testing",
          environmentId: Option.some(environmentId),
          keyDigest: sha256(testingKey)
        },
        eventId,
        eventType: "session.logout.v1",
        occurredAt: "2026-09-25T10:15:30Z",
        organisationUuid: Option.none(),
        aggregate: metadata.aggregate,
        data: { a: 1 }
      })
      assert.notInclude(JSON.stringify(event), testingKey)
    })
  )

  atTheTime("of an older sender has no environment", () =>
    Effect.gen(function* () {
      const event = yield* verify(delivery(testing({ environment_id: undefined, generation: undefined })))
      deepStrictEqual(event.plane, {
        _tag: "Testing",
        environmentId: Option.none(),
        keyDigest: sha256(testingKey)
      })
    })
  )

  atTheTime("may repeat its environment in the aggregate", () =>
    verify(
      delivery(
        testing({ aggregate: { ...metadata.aggregate, environment_id: environmentId, generation: 1 } })
      )
    )
  )

  const wrong: Readonly<Record<string, string>> = {
    "another key beside test": testing({}, {}, { x: 1 }),
    "a production event beside test": testing({}, {}, JSON.parse(w1)),
    "a test that is no object": JSON.stringify({ test: null }),
    "another key in test": testing({}, { x: 1 }),
    "another key in its metadata": testing({ x: 1 }),
    "an environment without a generation": testing({ generation: undefined }),
    "a generation without an environment": testing({ environment_id: undefined }),
    "generation 0": testing({ generation: 0 }),
    "an environment that is null": testing({ environment_id: null, generation: null }),
    "an environment that is no UUID": testing({ environment_id: "e" }),
    "a key of 31 characters": testing({}, { testing_key: "K".repeat(31) }),
    "a key of 33 characters": testing({}, { testing_key: "K".repeat(33) }),
    "a key with a sign in it": testing({}, { testing_key: `${"K".repeat(31)}-` }),
    "no key": testing({}, { testing_key: undefined }),
    "no organisation key": testing({ organization_id: undefined }),
    "no data": testing({}, { data: undefined }),
    "another event id than its header": testing({ event_id: environmentId }),
    "another specification": testing({ spec_version: "2.0" }),
    "an aggregate of another environment": testing({
      aggregate: { ...metadata.aggregate, environment_id: "0199b000-0000-7000-8000-00000000000f" }
    }),
    "an aggregate of another generation": testing({ aggregate: { ...metadata.aggregate, generation: 2 } })
  }
  for (const [name, body] of Object.entries(wrong))
    atTheTime(`is rejected for ${name}, though well signed`, () => Effect.asVoid(rejected(delivery(body))))
})

describe("A delivery of the simulated IAM", () => {
  it.scoped("is accepted in both planes, with its event", () =>
    Effect.gen(function* () {
      const { environment, iam, world } = yield* iamWorld()
      for (const plane of [productionId, environment.plane])
        for (const options of [{}, { withoutEnvironment: true }]) {
          const { body, headers } = world.buildWebhook(
            plane,
            { ...world.events.membershipRemoved(plane, "c:ana", "acme"), appId: "music" },
            options
          )
          const event = yield* iam.verifyWebhook({ rawHeaders: Object.entries(headers).flat(), body })
          assert.strictEqual(event.eventType, "organization.membership.removed.v1")
          assert.strictEqual(event.plane._tag, plane === productionId ? "Production" : "Testing")
          if (event.plane._tag === "Testing")
            assert.strictEqual(event.plane.keyDigest, environment.webhookKeyDigest)
        }
    })
  )
})
