import { assert, describe, it } from "@effect/vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/TestClock"
import { startTing } from "../../../sandbox/upstreams/Ting.ts"
import type { Plane } from "../../../src/services/Plane.ts"
import { planeId } from "../../../src/services/Plane.ts"
import type { PreparedCall } from "../../../src/services/Ting.ts"
import { iamWorld, key, production } from "../iam/Simulated.ts"
import { eventually, simulated } from "../upstream/Simulated.ts"
import { tingOver } from "./Simulated.ts"

const type = "music.trigger.fired"

/** A Ting that verifies proofs with the simulated IAM, and a logged-in Silicon in each plane. */
const tingWorld = Effect.gen(function* () {
  const world = yield* iamWorld()
  const server = yield* simulated((now) =>
    startTing({ now, iamUrl: world.simulator.url, appSecret: world.seeded.tingSecret })
  )
  const ting = yield* tingOver(server.url)
  for (const plane of [production, world.testing]) server.registerType(planeId(plane), "music", type)
  const tokens = {
    Production: yield* world.login(),
    Testing: yield* world.loginIn(world.testing)
  }
  let attempts = 0
  const prove = (plane: Plane, call: PreparedCall) => {
    attempts += 1
    return world.iam.prove(plane, {
      subject: tokens[plane._tag].accessToken,
      organisation: "acme",
      endpoint: call.endpoint,
      body: call.body,
      key: key(`attempt-${attempts}`)
    })
  }
  const registration = ting.prepareRegistration({ organisation: "acme", publicId: "si:deejay" })
  const message = (name: string, text = "hello") =>
    ting.prepareTing({
      organisation: "acme",
      recipient: "si:deejay",
      type,
      key: `si:deejay/${name}`,
      data: { text },
      metadata: undefined
    })
  return {
    ...world,
    server,
    ting,
    prove,
    registration,
    message,
    register: (plane: Plane = production) =>
      Effect.flatMap(prove(plane, registration), (proof) => ting.register(registration, proof)),
    send: (call: PreparedCall, plane: Plane = production) =>
      Effect.flatMap(prove(plane, call), (proof) => ting.send(call, proof))
  }
})

describe("with a new proof for each attempt", () => {
  it.scoped("a recipient can register any number of times", () =>
    Effect.gen(function* () {
      const { register, server } = yield* tingWorld
      const first = yield* register()
      deepStrictEqual({ ...first, id: "" }, { id: "", applicationId: "music", recipient: "si:deejay" })
      deepStrictEqual(yield* register(), first)
      deepStrictEqual(
        server.seen.map(({ status }) => status),
        [201, 200]
      )
    })
  )

  it.scoped("a ting is sent once and replayed under its key", () =>
    Effect.gen(function* () {
      const { message, register, send, server } = yield* tingWorld
      yield* register()
      const first = yield* send(message("a"))
      assert.isFalse(first.replayed)
      deepStrictEqual(yield* send(message("a")), { ...first, replayed: true })
      assert.include(yield* Effect.flip(send(message("a", "bye"))), {
        _tag: "Refused",
        status: 409,
        code: "idempotency_conflict"
      })
      assert.lengthOf(server.accepted("production"), 1)
    })
  )

  it.scoped("a ting whose answer was lost is replayed when it is sent again", () =>
    Effect.gen(function* () {
      const { message, register, send, server } = yield* tingWorld
      yield* register()
      server.fail({ path: "/v1/tings", fault: { kind: "drop-after" } })
      assert.include(yield* Effect.flip(send(message("a"))), { _tag: "Unknown", dependency: "ting" })
      assert.isTrue((yield* send(message("a"))).replayed)
      assert.lengthOf(server.accepted("production"), 1)
    })
  )

  it.scoped("a muted ting is silent", () =>
    Effect.gen(function* () {
      const { message, register, send, server } = yield* tingWorld
      yield* register()
      server.mute({ plane: "production", org: "acme", app_id: "music", for: "si:deejay" })
      assert.isTrue((yield* send(message("a"))).silent)
    })
  )

  it.scoped("Ting's refusals are returned", () =>
    Effect.gen(function* () {
      const { message, register, send, server } = yield* tingWorld
      assert.include(yield* Effect.flip(send(message("a"))), { code: "recipient_not_registered" })
      yield* register()
      server.revokeGrant({ plane: "production", org: "acme", app_id: "music", for: "si:deejay" })
      assert.include(yield* Effect.flip(send(message("a"))), { code: "recipient_not_registered" })
      server.failNext("temporarily_rate_limited", { retryAfter: 11 })
      const limited = yield* Effect.flip(send(message("a")))
      assert.include(limited, { _tag: "Refused", status: 429, retryAfterSeconds: 11 })
      server.failNext("dependency_unavailable")
      assert.include(yield* Effect.flip(send(message("a"))), { _tag: "NotExecuted" })
      server.failNext("storage_unavailable", { committed: true })
      assert.include(yield* Effect.flip(send(message("a"))), { _tag: "Unknown" })
    })
  )
})

describe("a proof", () => {
  it.scoped("is accepted once", () =>
    Effect.gen(function* () {
      const { prove, registration, ting } = yield* tingWorld
      const proof = yield* prove(production, registration)
      yield* ting.register(registration, proof)
      assert.include(yield* Effect.flip(ting.register(registration, proof)), {
        _tag: "Refused",
        code: "proof_consumed"
      })
    })
  )

  it.scoped("is accepted for 60 seconds", () =>
    Effect.gen(function* () {
      const { prove, registration, ting } = yield* tingWorld
      const proof = yield* prove(production, registration)
      yield* TestClock.adjust("61 seconds")
      assert.include(yield* Effect.flip(ting.register(registration, proof)), { code: "proof_expired" })
    })
  )

  it.scoped("is accepted only for its bytes", () =>
    Effect.gen(function* () {
      const { message, prove, register, ting } = yield* tingWorld
      yield* register()
      const proof = yield* prove(production, message("a"))
      assert.include(yield* Effect.flip(ting.send(message("b"), proof)), { code: "invalid_proof" })
    })
  )

  it.scoped("is accepted in its own plane only", () =>
    Effect.gen(function* () {
      const { message, prove, register, registration, send, server, testing, ting } = yield* tingWorld
      yield* register(testing)
      yield* send(message("a"), testing)
      assert.lengthOf(server.accepted(testing.environmentId), 1)
      assert.lengthOf(server.accepted("production"), 0)
      assert.include(yield* Effect.flip(send(message("a"))), { code: "recipient_not_registered" })

      const tested = yield* prove(testing, registration)
      const stripped = yield* Effect.flip(ting.register(registration, { ...tested, testing: Option.none() }))
      assert.include(stripped, { code: "invalid_proof" })
      const real = yield* prove(production, registration)
      const dressed = yield* Effect.flip(ting.register(registration, { ...real, testing: tested.testing }))
      assert.include(dressed, { code: "invalid_proof" })
      assert.lengthOf(server.grants("production"), 0)
    })
  )
})

describe("a slow Ting", () => {
  it.scoped("has an unknown outcome after the configured seconds", () =>
    Effect.gen(function* () {
      const { prove, registration, server, ting } = yield* tingWorld
      const proof = yield* prove(production, registration)
      server.fail({ fault: { kind: "hang-after" } })
      const sending = yield* Effect.fork(Effect.flip(ting.register(registration, proof)))
      yield* eventually(() => server.grants("production").length === 1)
      yield* TestClock.adjust("15 seconds")
      const failure = yield* Fiber.join(sending)
      assert.include(failure, { _tag: "Unknown", reason: "no answer within 15 seconds" })
      assert.notInclude(JSON.stringify(failure), Redacted.value(proof.bearer))
    })
  )
})
