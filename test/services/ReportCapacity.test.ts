import { describe } from "vitest"
import { deepStrictEqual } from "@effect/vitest/utils"
import * as Effect from "effect/Effect"
import { submit } from "../support/Submitting.ts"
import { callerKey, scenario, signedIn } from "../support/UseCaseLayers.ts"

type Input = NonNullable<Parameters<typeof submit>[0]>

/** A report of 1,012 bytes, with 1,000 for its row: `stored`, `replayed`, or the code of its refusal. */
const send = (name: string, sender: Pick<Input, "token"> = {}) =>
  submit({ key: callerKey(name), request: { message: `report ${name}` }, ...sender }).pipe(
    Effect.match({
      onSuccess: ({ replayed }) => (replayed ? "replayed" : "stored"),
      onFailure: ({ code }) => code
    })
  )

describe("The bytes of all stored reports", () => {
  scenario(
    "from 80 % of the bound on only reporters with none stored may store; a replay needs no room",
    function* () {
      const { token } = yield* signedIn()
      const unverified = yield* Effect.forEach(["a", "b", "c", "d", "e", "f", "g", "h"], (name) => send(name))
      deepStrictEqual(unverified, [
        "stored",
        "stored",
        "stored",
        "stored",
        "stored",
        "stored",
        "stored",
        "reports_full"
      ])
      const { token: other } = yield* signedIn({ actor: "si:lyra" })
      const { token: third } = yield* signedIn({ actor: "si:nova" })
      deepStrictEqual(
        [
          yield* send("i", { token }),
          yield* send("j", { token }),
          yield* send("k", { token: other }),
          yield* send("l", { token: third })
        ],
        ["stored", "reports_full", "stored", "reports_full"]
      )
      const failure = yield* Effect.flip(submit({ key: callerKey("m") }))
      deepStrictEqual(
        [failure.code, failure.retryAfterSeconds, failure.details?.reason],
        ["reports_full", 3_600, "room"]
      )
      deepStrictEqual(yield* send("a"), "replayed")
    },
    { settings: { reportsBytes: 10_500 } }
  )
})
