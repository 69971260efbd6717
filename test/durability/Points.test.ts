import * as Effect from "effect/Effect"
import { expect } from "vitest"
import { Store } from "../../src/services/Store.ts"
import * as TestStore from "../world/TestStore.ts"
import { it } from "../world/Test.ts"
import { without, writes } from "./Points.ts"

it.scoped("every method of the store has crash points, or is named as one that needs none", () =>
  Effect.gen(function* () {
    const { check: _, wakeups: __, ...repositories } = yield* Store
    const methods = Object.entries(repositories).flatMap(([repository, members]) =>
      Object.keys(members).map((method) => `${repository}.${method}`)
    )
    const killed = new Set(Object.keys(writes).map((write) => write.split(":")[0] ?? ""))
    expect(methods.filter((method) => without.has(method) === killed.has(method))).toEqual([])
    expect([...without, ...killed].filter((method) => !methods.includes(method))).toEqual([])
  }).pipe(Effect.provide(TestStore.layer))
)
