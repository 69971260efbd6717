import { assert, describe } from "vitest"
import { it } from "../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { faults, type Reply, type Seen } from "../../../sandbox/upstreams/Simulator.ts"
import { version } from "../../../src/schema/Release.ts"
import type { Proof } from "../../../src/services/Iam.ts"
import { answering } from "../upstream/Simulated.ts"
import { tingOver } from "./Simulated.ts"
import { until } from "../../support/Waiting.ts"

const proof = (path: string): Proof => ({
  bearer: Redacted.make(`obo_${"p".repeat(43)}`),
  path,
  testing: Option.none()
})

const testingProof = (path: string): Proof => ({
  ...proof(path),
  testing: Option.some({
    applicationSecret: Redacted.make(`ask_${"t".repeat(43)}`),
    environmentKey: Redacted.make("k".repeat(32))
  })
})

const grant = { id: "sub_1", app_id: "music", for: "si:lyra", active: true, required_delivery: false }
const accepted = {
  id: "msg_1",
  created_at: "2026-09-24T08:15:30.412907Z",
  status: "accepted",
  key: "si:lyra/1",
  silent: false
}

const message = {
  organisation: "acme",
  recipient: "si:lyra",
  type: "music.trigger.fired",
  key: "si:lyra/1",
  data: { n: 1.5, text: "ä\ud83c\udfb5" },
  metadata: undefined
}

const tingAnswering = (reply: () => Reply, overrides: Parameters<typeof tingOver>[1] = {}) =>
  Effect.gen(function* () {
    const server = yield* answering(reply)
    const ting = yield* tingOver(server.url, overrides)
    return {
      server,
      ting,
      register: ting.register(
        ting.prepareRegistration({ organisation: "acme", publicId: "si:lyra" }),
        proof("/v1/subscriptions")
      ),
      send: ting.send(ting.prepareTing(message), proof("/v1/tings"))
    }
  })

const text = (bytes: Uint8Array | undefined) => new TextDecoder().decode(bytes)

describe("a prepared call", () => {
  it.scoped("contains exactly the contract's fields, and metadata only when given", function* () {
    const ting = yield* tingOver("http://127.0.0.1:1")
    const registration = ting.prepareRegistration({ organisation: "acme", publicId: "si:lyra" })
    deepStrictEqual(
      { ...registration, body: JSON.parse(text(registration.body)) },
      {
        endpoint: "subscriptions.register",
        body: { org_id: "acme", app_id: "music", for: "si:lyra" },
        expected: "si:lyra"
      }
    )
    const fields = {
      org_id: "acme",
      type: message.type,
      for: "si:lyra",
      key: message.key,
      data: message.data
    }
    const ordinary = ting.prepareTing(message)
    deepStrictEqual(
      { ...ordinary, body: JSON.parse(text(ordinary.body)) },
      { endpoint: "tings.send", body: fields, expected: message.key }
    )
    const described = ting.prepareTing({ ...message, metadata: {} })
    deepStrictEqual(JSON.parse(text(described.body)), { ...fields, metadata: {} })
  })
})

describe("a call to Ting", () => {
  const headersOf = (request: Seen | undefined) => Object.fromEntries(request?.headers ?? [])

  it.scoped("sends the same prepared bytes to the proof's path in every attempt", function* () {
    const { server, ting } = yield* tingAnswering(() => ({ status: 202, body: accepted }))
    const call = ting.prepareTing(message)
    yield* ting.send(call, proof("/v1/tings"))
    yield* ting.send(call, testingProof("/v2/tings"))
    const [first, second] = server.seen
    deepStrictEqual(first?.body, Buffer.from(call.body))
    deepStrictEqual(second?.body, Buffer.from(call.body))
    deepStrictEqual([first?.method, first?.path, second?.path], ["POST", "/v1/tings", "/v2/tings"])
    const sent = headersOf(first)
    assert.deepInclude(sent, {
      authorization: [`Bearer obo_${"p".repeat(43)}`],
      "content-type": ["application/json"],
      "ting-client-version": [version],
      "user-agent": [`music-backend/${version}`]
    })
    for (const absent of ["origin", "idempotency-key", "iam_test_app_secret", "x-testing-environment-key"])
      assert.notProperty(sent, absent)
    assert.deepInclude(headersOf(second), {
      iam_test_app_secret: [`ask_${"t".repeat(43)}`],
      "x-testing-environment-key": ["k".repeat(32)]
    })
  })

  it.scoped("fails with Ting's code, also for a 401", function* () {
    const { send, server } = yield* tingAnswering(() => ({ status: 500 }))
    for (const [status, code] of [
      [400, "invalid_input"],
      [401, "invalid_proof"],
      [403, "recipient_not_registered"]
    ] as const) {
      server.fail({
        fault: faults.status(
          status,
          { error: { code, message: "no", hint: "stop", retryable: false } },
          { "ting-request-id": `req_${"0".repeat(32)}` }
        )
      })
      assert.deepInclude(yield* Effect.flip(send), {
        _tag: "Refused",
        dependency: "ting",
        status,
        code,
        requestId: `req_${"0".repeat(32)}`
      })
    }
  })

  it.scoped("has an unknown outcome after the configured seconds", function* () {
    const { send, server } = yield* tingAnswering(() => ({ status: 500 }), { timeoutSeconds: 7 })
    server.fail({ fault: { kind: "hang" } })
    const sending = yield* Effect.fork(Effect.flip(send))
    yield* until(() => server.seen.length === 1)
    yield* TestClock.adjust("6999 millis")
    assert.isTrue(Option.isNone(yield* Fiber.poll(sending)))
    yield* TestClock.adjust("100 millis")
    const failure = yield* Fiber.join(sending)
    assert.include(failure, { _tag: "Unknown", reason: "no answer within 7 seconds" })
    assert.notInclude(JSON.stringify(failure), "obo_")
  })

  it.scoped("has no effect only when Ting's code guarantees it", function* () {
    const { send, server } = yield* tingAnswering(() => ({ status: 500 }))
    for (const [status, code, tag] of [
      [503, "dependency_unavailable", "NotExecuted"],
      [503, "storage_unavailable", "Unknown"],
      [503, "proof_verification_uncertain", "Unknown"],
      [500, "dependency_unavailable", "Unknown"]
    ] as const) {
      const error = { code, message: "no", hint: "wait", retryable: true }
      server.fail({ fault: faults.status(status, { error }, { "retry-after": "4" }) })
      assert.deepInclude(yield* Effect.flip(send), { _tag: tag, retryAfterSeconds: 4 })
    }
    server.fail({ fault: faults.oversized(1024 * 1024) })
    assert.include(yield* Effect.flip(send), { _tag: "Unknown", dependency: "ting" })
  })
})

describe("a registration", () => {
  for (const status of [200, 201])
    it.scoped(`is accepted with ${status}`, function* () {
      const { register } = yield* tingAnswering(() => ({ status, body: { ...grant, later: 1 } }))
      deepStrictEqual(yield* register, {
        id: "sub_1",
        applicationId: "music",
        recipient: "si:lyra"
      })
    })

  for (const [name, reply] of Object.entries<Reply>({
    "for another recipient": { status: 201, body: { ...grant, for: "si:deejay" } },
    "for another application": { status: 201, body: { ...grant, app_id: "radio" } },
    "that is not active": { status: 201, body: { ...grant, active: false } },
    "without an id": { status: 201, body: { ...grant, id: undefined } },
    "with a ting's id": { status: 201, body: { ...grant, id: "msg_1" } },
    "with another success": { status: 202, body: grant }
  }))
    it.scoped(`is rejected ${name}`, function* () {
      const { register } = yield* tingAnswering(() => reply)
      assert.include(yield* Effect.flip(register), { _tag: "Unknown", dependency: "ting" })
    })
})

describe("a ting", () => {
  it.scoped("is new with 202 and a replay with 200, muted or not", function* () {
    let reply: Reply = { status: 202, body: accepted }
    const { send } = yield* tingAnswering(() => reply)
    const expected = {
      id: "msg_1",
      createdAt: accepted.created_at,
      key: accepted.key,
      silent: false,
      replayed: false
    }
    deepStrictEqual(yield* send, expected)
    reply = { status: 200, body: { ...accepted, silent: true, created_at: "2026-09-24T08:15:30Z" } }
    deepStrictEqual(yield* send, {
      ...expected,
      createdAt: "2026-09-24T08:15:30Z",
      silent: true,
      replayed: true
    })
  })

  for (const [name, reply] of Object.entries<Reply>({
    "under another key": { status: 202, body: { ...accepted, key: "si:lyra/2" } },
    "with another verdict": { status: 202, body: { ...accepted, status: "queued" } },
    "without an id": { status: 202, body: { ...accepted, id: 1 } },
    "without a time": { status: 202, body: { ...accepted, created_at: "yesterday" } },
    "without a value of silent": { status: 202, body: { ...accepted, silent: undefined } },
    "with another success": { status: 201, body: accepted },
    "with nothing": { status: 202 }
  }))
    it.scoped(`is rejected ${name}`, function* () {
      const { send } = yield* tingAnswering(() => reply)
      assert.include(yield* Effect.flip(send), { _tag: "Unknown", dependency: "ting" })
    })
})
