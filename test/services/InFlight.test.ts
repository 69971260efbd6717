import { expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { makeInFlight } from "../../src/services/InFlight.ts"

it.effect("runs nothing after the end of its scope", function* () {
  const scope = yield* Scope.make()
  const { share } = yield* Scope.extend(makeInFlight, scope)
  yield* Scope.close(scope, Exit.void)
  let runs = 0
  const late = share<number, never>({ find: () => undefined, put: () => undefined })(
    Effect.sync(() => {
      runs += 1
      return runs
    })
  )
  expect(Exit.isInterrupted(yield* Effect.exit(late))).toBe(true)
  expect(runs).toBe(0)
})
