import { assert, describe } from "vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/TestClock"
import { toEnvelope } from "../../src/schema/Envelope.ts"
import { scopes } from "../../src/schema/Identity.ts"
import { tingBodyLimit } from "../../src/schema/Ting.ts"
import { Notifications } from "../../src/services/Notifications.ts"
import { fired, prepared, settle } from "../support/Sending.ts"
import {
  advanceClockDuring,
  inRequest,
  lost,
  scenario,
  signedIn,
  unreachable
} from "../support/UseCaseLayers.ts"

const text = (body: Uint8Array | undefined): unknown => JSON.parse(new TextDecoder().decode(body))

describe("sending a ting", () => {
  scenario("adds organisation and recipient from the verified session", function* () {
    const { send, sends } = yield* prepared()
    const sent = yield* send({ metadata: { mood: "calm" } })
    assert.match(sent.id, /^msg_/)
    deepStrictEqual(
      { ...sent, id: "" },
      { id: "", created_at: "2026-11-21T10:00:00.400Z", key: fired.key, silent: false, replayed: false }
    )
    const [call] = yield* sends
    deepStrictEqual(text(call?.body), {
      org_id: "acme",
      type: fired.type,
      for: "si:deejay",
      key: fired.key,
      data: { trigger: 7 },
      metadata: { mood: "calm" }
    })
  })

  scenario(
    "reports a replay when Ting already had key and content; the repetition has a new proof",
    function* () {
      const { iam, proofs, send } = yield* prepared()
      const first = yield* send()
      const again = yield* send()
      deepStrictEqual(again, { ...first, replayed: true })
      assert.strictEqual(yield* iam.calls("prove"), proofs + 2)
    }
  )

  scenario("reports that the recipient muted the type", function* () {
    const { send, ting } = yield* prepared()
    yield* ting.mute("si:deejay")
    assert.isTrue((yield* send()).silent)
  })
})

describe("a ting is refused before a proof is requested", () => {
  scenario("when its key does not start with the caller's own public id and a slash", function* () {
    const { iam, proofs, send } = yield* prepared()
    for (const key of [
      "trigger/7",
      "si:deejay",
      "si:deejay2/x",
      "si:other/x",
      " si:deejay/x",
      "SI:deejay/x"
    ]) {
      const failure = yield* Effect.flip(send({ key }))
      assert.strictEqual(failure.code, "invalid_input", key)
      deepStrictEqual(
        failure.details?.fields?.map(({ path }) => path),
        ["key"]
      )
      assert.notInclude(JSON.stringify(toEnvelope(failure)), key)
    }
    assert.strictEqual(yield* iam.calls("prove"), proofs)
  })

  scenario("when its type is not registered for this application", function* () {
    const { iam, proofs, send } = yield* prepared()
    const failure = yield* Effect.flip(send({ type: "music.trigger.other" }))
    assert.strictEqual(failure.code, "not_found")
    assert.strictEqual(yield* iam.calls("prove"), proofs)
    assert.match((yield* send({ type: "music.trigger.expired" })).id, /^msg_/)
  })

  scenario("when its body exceeds 262,144 bytes", function* () {
    const { iam, proofs, send, sends } = yield* prepared()
    yield* send()
    const [call] = yield* sends
    const room = tingBodyLimit - (call?.body.length ?? 0) - ',"note":""'.length
    const filled = (bytes: number, key: string) => ({
      key: `si:deejay/trigger/7/${key}`,
      // Two bytes a character: the limit counts bytes, not characters or UTF-16 units.
      data: { trigger: 7, note: "é".repeat(Math.floor(bytes / 2)) + "x".repeat(bytes % 2) }
    })
    assert.strictEqual(tingBodyLimit, 262_144)
    yield* send(filled(room, "large"))
    assert.strictEqual((yield* sends).at(-1)?.body.length, 262_144)
    const failure = yield* Effect.flip(send(filled(room + 1, "large")))
    assert.strictEqual(failure.code, "payload_too_large")
    assert.strictEqual(yield* iam.calls("prove"), proofs + 2)
  })

  scenario("when the token lacks the send scope", function* () {
    const { caller, iam, plane, proofs } = yield* prepared()
    const held = caller.membership.scopes.filter((name) => name !== scopes.send)
    const lacking = { ...caller, membership: { ...caller.membership, scopes: held } }
    const notifications = yield* Notifications
    const failure = yield* Effect.flip(notifications.send(plane, lacking, fired))
    assert.strictEqual(failure.code, "reconsent_required")
    assert.strictEqual(yield* iam.calls("prove"), proofs)
  })
})

describe("a transient failure", () => {
  scenario(
    "is retried with a new proof and the same bytes, and is a replay when the first attempt was accepted and its answer lost",
    function* () {
      const { send, sends, ting } = yield* prepared()
      yield* ting.failNext("send", lost("ting"), { when: "after" })
      assert.isTrue((yield* advanceClockDuring(send())).replayed)
      const calls = yield* sends
      assert.strictEqual(calls.length, 2)
      assert.strictEqual(calls[0]?.body, calls[1]?.body)
      assert.notStrictEqual(calls[0]?.proof, calls[1]?.proof)
    }
  )
})

describe("a ting that failed", () => {
  scenario("is never sent later: there is no outbox", function* () {
    const { send, sends, ting } = yield* prepared()
    yield* ting.failNext("send", unreachable("ting"), { times: 3 })
    const failure = yield* advanceClockDuring(Effect.flip(send()))
    assert.strictEqual(failure.code, "dependency_unavailable")
    yield* TestClock.adjust("10 minutes")
    assert.isEmpty(yield* sends)
    assert.isFalse((yield* send()).replayed)
  })
})

describe("the same key with other content", () => {
  scenario("is a conflict, also in flight", function* () {
    const { send, ting } = yield* prepared()
    const held = yield* ting.hold("send", "after")
    const first = yield* Effect.fork(send())
    yield* held.arrived
    const failure = yield* Effect.flip(send({ data: { trigger: 8 } }))
    assert.strictEqual(failure.code, "idempotency_conflict")
    assert.strictEqual(failure.details?.upstream_code, "idempotency_conflict")
    yield* held.release
    assert.isFalse((yield* Fiber.join(first)).replayed)
  })
})

describe("identical tings in flight", () => {
  scenario("are one ting: the one that joined says that it is a replay", function* () {
    const { send, ting } = yield* prepared()
    const held = yield* ting.hold("send")
    const first = yield* Effect.fork(send())
    yield* held.arrived
    const second = yield* Effect.fork(send())
    yield* settle
    yield* held.release
    const sent = yield* Fiber.join(first)
    assert.isFalse(sent.replayed)
    deepStrictEqual(yield* Fiber.join(second), { ...sent, replayed: true })
    assert.strictEqual(yield* ting.calls("send"), 1)
  })

  scenario("share one execution, whichever caller disconnects", function* () {
    const { send, ting } = yield* prepared()
    const held = yield* ting.hold("send")
    const first = yield* Effect.fork(send())
    yield* held.arrived
    const second = yield* Effect.fork(send())
    yield* settle
    yield* Fiber.interrupt(first)
    yield* held.release
    assert.isTrue((yield* Fiber.join(second)).replayed)
    assert.strictEqual(yield* ting.calls("send"), 1)
  })

  scenario("of two sessions are two calls", function* () {
    const { plane, send, ting } = yield* prepared()
    const notifications = yield* Notifications
    const { caller } = yield* signedIn()
    const held = yield* ting.hold("send", "after")
    const first = yield* Effect.fork(send())
    yield* held.arrived
    assert.isTrue((yield* notifications.send(plane, caller, fired).pipe(inRequest())).replayed)
    yield* held.release
    assert.isFalse((yield* Fiber.join(first)).replayed)
  })
})
