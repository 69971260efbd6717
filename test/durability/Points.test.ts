import { expect } from "vitest"
import { it } from "../world/Test.ts"
import * as Effect from "effect/Effect"
import { Store } from "../../src/services/Store.ts"
import * as TestStore from "../support/TestStore.ts"
import { splitRandomly, migrating, reads, running, writes } from "./Points.ts"
import { seeded } from "./Random.ts"

it.scoped("every method of the store either only reads or has crash points", () =>
  Effect.gen(function* () {
    const { check: _, wakeups: __, ...repositories } = yield* Store
    const methods = Object.entries(repositories).flatMap(([repository, members]) =>
      Object.keys(members).map((method) => `${repository}.${method}`)
    )
    const killed = new Set(Object.keys(writes).map((write) => write.split(":")[0]))
    expect(methods.filter((method) => reads.has(method) === killed.has(method))).toEqual([])
    expect([...reads].filter((method) => !methods.includes(method))).toEqual([])
    // Expiring is two transactions.
    expect([...killed].filter((method) => method !== undefined && !methods.includes(method))).toEqual([
      "spool.forget"
    ])
  }).pipe(Effect.provide(TestStore.layer))
)

it("each write has crash points before its begin, before its commit and after its commit", () => {
  const names = [...running, ...migrating].map(({ name }) => name)
  expect(new Set(names).size).toBe(names.length)
  for (const write of [...Object.keys(writes), "store.migrate"])
    for (const moment of ["begin", "commit", "committed"]) expect(names).toContain(`${write} ${moment}`)
})

it("the random order is repeatable and contains every point", () => {
  const hands = (seed: number) =>
    splitRandomly(running, seeded(seed), 4).map((hand) => hand.map(({ name }) => name))
  expect(hands(7)).toEqual(hands(7))
  expect(hands(7)).not.toEqual(hands(8))
  expect(hands(7).flat().sort()).toEqual(running.map(({ name }) => name).sort())
})
