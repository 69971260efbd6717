import { expect } from "vitest"
import { it } from "../../world/Test.ts"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as TestClock from "effect/TestClock"
import { makeTableBreaker } from "../../../src/layers/delivery/TableBreaker.ts"
import { freshPath, openStore } from "../store/Stores.ts"

it.scoped("Of two processes that find a closed table due for a probe, one probes it", () =>
  Effect.gen(function* () {
    const path = yield* freshPath
    const open = Effect.map(openStore(path), ({ destinations }) =>
      makeTableBreaker(destinations, new Set(["musicbackend", "musicclidaemon"] as const), 300_000)
    )
    const [one, other] = [yield* open, yield* open]
    const reserve = Effect.forEach([one, other], ({ reserveProbe }) => reserveProbe("musicbackend"), {
      concurrency: "unbounded"
    })
    yield* one.close("musicbackend")
    yield* TestClock.adjust(299_999)
    for (const { states } of [one, other])
      expect(yield* states).toEqual({ open: new Set(["musicclidaemon"]), due: new Set() })
    yield* TestClock.adjust(1)
    for (const { states } of [one, other]) expect((yield* states).due).toEqual(new Set(["musicbackend"]))
    expect((yield* reserve).sort()).toEqual([false, true])
    for (const { states } of [one, other]) expect((yield* states).due).toEqual(new Set())
    yield* other.reopen("musicbackend")
    for (const { anyClosed } of [one, other]) expect(yield* anyClosed).toBe(false)
  }).pipe(Effect.provide(Logger.remove(Logger.defaultLogger)))
)
