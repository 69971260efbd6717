import { expect } from "vitest"
import { it } from "../../world/Test.ts"
import { backend, call, good } from "../support.ts"

it.scoped("An idle connection is kept for 65 s, and the answer says so", function* () {
  const server = yield* backend()
  const { headers } = yield* call(server, good.version)
  expect([headers.connection, headers["keep-alive"]]).toEqual(["keep-alive", "timeout=65"])
})
