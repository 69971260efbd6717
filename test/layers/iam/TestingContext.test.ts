import { assert, describe } from "vitest"
import { it } from "../../world/Test.ts"
import { Effect, Redacted } from "effect"
import { faults } from "../../../sandbox/upstreams/Simulator.ts"
import type { UpstreamFailure } from "../../../src/services/UpstreamFailure.ts"
import { iamWorld, key, reply } from "./Simulated.ts"

const path = "/application/testing-context"
const unknownSecret = Redacted.make(`ask_${"z".repeat(43)}`)

describe("resolvePlane", () => {
  const id = "0199b000-0000-7000-8000-00000000000e"
  const context = { environment_id: id, application: { app_id: "music" } }

  it.scoped("rejects what breaks the contract, and does not cache it", function* () {
    const { iam, simulator, testing } = yield* iamWorld()
    // An older server has no newer members.
    simulator.fail({ fault: reply(context) })
    const plane = yield* iam.resolvePlane(unknownSecret)
    assert.include(plane, { environmentId: id, webhookKeyDigest: undefined })
    for (const change of [
      { application: { app_id: "ting" } },
      { application: undefined },
      { environment_id: "production" },
      { environment_id: "00000000-0000-0000-0000-000000000000" },
      { environment: { environment_id: id.replace("b000", "b001") } },
      { webhook_key_digest: "cc61" }
    ]) {
      simulator.fail({ fault: reply({ ...context, ...change }) })
      const failure = yield* Effect.flip(iam.resolvePlane(testing.secret))
      assert.strictEqual(failure._tag, "Unknown", JSON.stringify(change))
    }
    assert.strictEqual((yield* iam.resolvePlane(testing.secret)).environmentId, testing.environmentId)
  })

  it.scoped("forgets it after a refusal of its secret, and not after other refusals", function* () {
    const { asked, iam, simulator, testing } = yield* iamWorld()
    yield* iam.resolvePlane(testing.secret)
    const calls: ReadonlyArray<Effect.Effect<unknown, UpstreamFailure>> = [
      iam.exchange(testing, Redacted.make("si:deejay"), key("login")),
      iam.introspect(testing, Redacted.make("oat"))
    ]
    // The first one says nothing of the secret.
    for (const [at, call] of calls.entries())
      for (const [more, code] of [...["forbidden", "invalid_client", "unauthenticated"].entries()]) {
        simulator.fail({ fault: faults.status(401, { error: { code, message: "no" } }) })
        yield* Effect.flip(call)
        yield* iam.resolvePlane(testing.secret)
        assert.lengthOf(asked(path), 1 + 2 * at + more)
      }
  })
})
