import { expect } from "vitest"
import { it } from "../../world/Test.ts"
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

it.scoped("A ting whose answer was lost is replayed, with a new proof, when it is sent again", function* () {
  const { register, send, server } = yield* tingWorld
  expect(yield* register()).toEqual(yield* register())
  server.fail({ path: "/v1/tings", fault: { kind: "drop-after" } })
  expect(yield* Effect.flip(send())).toMatchObject({ _tag: "Unknown", dependency: "ting" })
  expect((yield* send()).replayed).toBe(true)
  expect(server.accepted("production").length).toBe(1)
})

it.scoped("A testing plane has its own registrations and tings", function* () {
  const { register, send, server, testing } = yield* tingWorld
  yield* register(testing)
  yield* send(testing)
  expect(server.accepted(testing.environmentId).length).toBe(1)
  expect(yield* Effect.flip(send())).toMatchObject({ code: "recipient_not_registered" })
})
