import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as TestClock from "effect/TestClock"
import { makeTableBreaker } from "../../../src/layers/delivery/TableBreaker.ts"
import { freshPath, openStore } from "../store/Stores.ts"

it.scoped("Of two processes that find a closed table due for a try, one tries it", () =>
  Effect.gen(function* () {
    const path = yield* freshPath
    const open = Effect.map(openStore(path), ({ destinations }) =>
      makeTableBreaker(destinations, new Set(["musicbackend", "musicclidaemon"] as const), 300_000)
    )
    const gates = [yield* open, yield* open]
    const book = Effect.forEach(gates, (gate) => gate.book("musicbackend"), { concurrency: "unbounded" })
    yield* gates[0]?.close("musicbackend") ?? Effect.void
    yield* TestClock.adjust(299_999)
    for (const { look } of gates)
      expect(yield* look).toEqual({ open: new Set(["musicclidaemon"]), due: new Set() })
    yield* TestClock.adjust(1)
    for (const { look } of gates) expect((yield* look).due).toEqual(new Set(["musicbackend"]))
    expect((yield* book).sort()).toEqual([false, true])
    for (const { look } of gates) expect((yield* look).due).toEqual(new Set())
    yield* gates[1]?.reopen("musicbackend") ?? Effect.void
    for (const { anyClosed } of gates) expect(yield* anyClosed).toBe(false)
  }).pipe(Effect.provide(Logger.remove(Logger.defaultLogger)))
)
