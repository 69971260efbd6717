import { expect } from "vitest"
import { it } from "../../world/Test.ts"
import { call, errorOf, good, sharedBackend } from "../support.ts"

const nested = (depth: number) => `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`

it.scoped(
  "a delivery of more than 64 levels is refused like every other body: to write it again would end the stack",
  function* () {
    const server = yield* sharedBackend
    const accepted = yield* call(server, { ...good.receive, body: nested(64) })
    expect(accepted.status).toBe(200)
    const refused = yield* call(server, { ...good.receive, body: nested(65) })
    expect([refused.status, errorOf(refused)]).toEqual([
      400,
      expect.objectContaining({
        code: "invalid_input",
        details: { fields: [{ path: "body", problem: "nests deeper than 64 levels" }] }
      })
    ])
  }
)
