import { describe, expect } from "vitest"
import { it } from "../../world/Test.ts"
import { Context, Effect, Layer, Option, Redacted } from "effect"
import { faults } from "../../../sandbox/upstreams/Simulator.ts"
import { parts } from "../../../src/Backend.ts"
import { HttpTing } from "../../../src/layers/ting/HttpTing.ts"
import { version } from "../../../src/schema/Release.ts"
import type { Proof } from "../../../src/services/Iam.ts"
import { Settings } from "../../../src/services/Settings.ts"
import { Ting } from "../../../src/services/Ting.ts"
import { testSettings } from "../../world/Settings.ts"
import { answering } from "../upstream/Simulated.ts"

const proof = (path: string): Proof => ({
  bearer: Redacted.make(`obo_${"p".repeat(43)}`),
  path,
  testing: Option.none()
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
  data: { n: 1.5, text: "ä\ud83c\udfb5" }
}

/** Ting as a server that answers 500, but for the faults of the test. */
const scripted = Effect.gen(function* () {
  const server = yield* answering(() => ({ status: 500 }))
  const settings = Layer.succeed(Settings, testSettings({ ting: { url: server.url } }))
  const context = yield* Layer.build(HttpTing.pipe(Layer.provide([parts.transport, settings])))
  const ting = Context.get(context, Ting)
  const registration = ting.prepareRegistration({ organisation: "acme", publicId: "si:lyra" })
  const answer = (status: number, body?: unknown, headers: Readonly<Record<string, string>> = {}) =>
    server.fail({ fault: faults.status(status, body, headers) })
  const call = ting.prepareTing(message)
  const register = ting.register(registration, proof("/v1/subscriptions"))
  return { server, ting, call, answer, register, send: ting.send(call, proof("/v1/tings")) }
})

describe("A call to Ting", () => {
  it.scoped("sends the same prepared bytes to the proof's path in every attempt", function* () {
    const { answer, call, send, server, ting } = yield* scripted
    for (let turn = 0; turn < 2; turn += 1) answer(202, accepted)
    yield* send
    const app_secret = Redacted.make(`ask_${"t".repeat(43)}`)
    const testing = Option.some({ app_secret, iam_test_key: Redacted.make("k".repeat(32)) })
    yield* ting.send(call, { ...proof("/v2/tings"), testing })
    expect(server.seen.map(({ body, method, path }) => [method, path, body])).toEqual([
      ["POST", "/v1/tings", Buffer.from(call.body)],
      ["POST", "/v2/tings", Buffer.from(call.body)]
    ])
    const [first, second] = server.seen.map(({ headers }) => Object.fromEntries(headers))
    expect(first).toMatchObject({
      authorization: [`Bearer obo_${"p".repeat(43)}`],
      "content-type": ["application/json"],
      "ting-client-version": [version],
      "user-agent": [`music-backend/${version}`]
    })
    for (const absent of ["origin", "idempotency-key", "iam_test_app_secret", "x-testing-environment-key"])
      expect(first).not.toHaveProperty(absent)
    expect(second).toMatchObject({
      iam_test_app_secret: [`ask_${"t".repeat(43)}`],
      "x-testing-environment-key": ["k".repeat(32)]
    })
  })

  it.scoped("fails with Ting's code; only a code that guarantees it means no effect", function* () {
    const { answer, send } = yield* scripted
    const requestId = `req_${"0".repeat(32)}`
    for (const [status, code, expected] of [
      [403, "recipient_not_registered", "Refused"],
      [503, "dependency_unavailable", "NotExecuted"],
      [503, "storage_unavailable", "Unknown"]
    ] as const) {
      const error = { code, message: "no", hint: "stop", retryable: false }
      answer(status, { error }, { "ting-request-id": requestId, "retry-after": "4" })
      const failure = yield* Effect.flip(send)
      expect(failure).toMatchObject(
        expected === "Refused"
          ? { _tag: expected, dependency: "ting", status, code, requestId }
          : { _tag: expected, retryAfterSeconds: 4 }
      )
    }
  })
})

describe("An answer of Ting", () => {
  it.scoped("accepts a ting as new with 202, as a replay with 200, muted or not", function* () {
    const { answer, send } = yield* scripted
    const expected = { id: "msg_1", key: accepted.key }
    answer(202, accepted)
    const first = { created_at: accepted.created_at, silent: false, replayed: false }
    expect(yield* send).toEqual({ ...expected, ...first })
    answer(200, { ...accepted, silent: true, created_at: "2026-09-24T08:15:30Z" })
    const second = { created_at: "2026-09-24T08:15:30Z", silent: true, replayed: true }
    expect(yield* send).toEqual({ ...expected, ...second })
  })

  it.scoped("that does not fit the call leaves its outcome unknown", function* () {
    const { answer, register, send } = yield* scripted
    for (const [call, status, body] of [
      [register, 201, { ...grant, for: "si:deejay" }],
      [register, 201, { ...grant, app_id: "radio" }],
      [register, 201, { ...grant, active: false }],
      [register, 201, { ...grant, id: "msg_1" }],
      [register, 202, grant],
      [send, 202, { ...accepted, key: "si:lyra/2" }],
      [send, 202, { ...accepted, status: "queued" }],
      [send, 202, { ...accepted, created_at: "yesterday" }],
      [send, 201, accepted],
      [send, 202, undefined]
    ] as const) {
      answer(status, body)
      const { _tag, dependency } = yield* Effect.flip<unknown, { _tag: string; dependency: string }, never>(
        call
      )
      expect([status, body, _tag, dependency]).toEqual([status, body, "Unknown", "ting"])
    }
  })
})
