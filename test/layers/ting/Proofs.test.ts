import { assert, describe } from "vitest"
import { it } from "../../world/Test.ts"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import { startTing } from "../../../sandbox/upstreams/Ting.ts"
import type { Plane } from "../../../src/services/Plane.ts"
import { planeId } from "../../../src/services/Plane.ts"
import type { PreparedCall } from "../../../src/services/Ting.ts"
import { iamWorld, key, production } from "../iam/Simulated.ts"
import { simulated } from "../upstream/Simulated.ts"
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
  const message = ting.prepareTing({
    organisation: "acme",
    recipient: "si:deejay",
    type,
    key: "si:deejay/a",
    data: { text: "hello" },
    metadata: undefined
  })
  return {
    ...world,
    server,
    register: (plane: Plane = production) =>
      Effect.flatMap(prove(plane, registration), (proof) => ting.register(registration, proof)),
    send: (plane: Plane = production) =>
      Effect.flatMap(prove(plane, message), (proof) => ting.send(message, proof))
  }
})

describe("with a new proof for each attempt", () => {
  it.scoped("a ting whose answer was lost is replayed when it is sent again", function* () {
    const { register, send, server } = yield* tingWorld
    const first = yield* register()
    deepStrictEqual(yield* register(), first)
    server.fail({ path: "/v1/tings", fault: { kind: "drop-after" } })
    assert.include(yield* Effect.flip(send()), { _tag: "Unknown", dependency: "ting" })
    assert.isTrue((yield* send()).replayed)
    assert.lengthOf(server.accepted("production"), 1)
  })

  it.scoped("a testing plane has its own registrations and tings", function* () {
    const { register, send, server, testing } = yield* tingWorld
    yield* register(testing)
    yield* send(testing)
    assert.lengthOf(server.accepted(testing.environmentId), 1)
    assert.include(yield* Effect.flip(send()), { code: "recipient_not_registered" })
  })
})
