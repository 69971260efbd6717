/** A caller who may send tings, for the tests of notifications. */
import { Effect } from "effect"
import type { TingRequest } from "../../src/schema/Ting.ts"
import { Notifications } from "../../src/services/usecases/Notifications.ts"
import { Store } from "../../src/services/Store.ts"
import type { PreparedCall } from "../../src/services/Ting.ts"
import { SimulatedIam, SimulatedTing } from "./SimulatedIam.ts"
import { inRequest, signedIn } from "./UseCaseLayers.ts"

export const fired: TingRequest = {
  type: "music.trigger.fired",
  key: "si:deejay/trigger/7/fired",
  data: { trigger: 7 }
}

/** A signed-in caller; registered as a recipient by default. */
export const prepared = (options: Parameters<typeof signedIn>[0] & { readonly registered?: boolean } = {}) =>
  Effect.gen(function* () {
    const { registered = true, ...who } = options
    const notifications = yield* Notifications
    const iam = yield* SimulatedIam
    const ting = yield* SimulatedTing
    const store = yield* Store
    const signed = yield* signedIn(who)
    const { plane, caller } = signed
    if (registered) yield* notifications.subscribe(plane, caller)
    const send = (request: Partial<TingRequest> = {}) =>
      notifications.send(plane, caller, { ...fired, ...request }).pipe(inRequest())
    const subscribe = Effect.suspend(() => notifications.subscribe(plane, caller)).pipe(inRequest())
    /** The bodies of its calls. */
    const sends = Effect.map(ting.seen<[PreparedCall]>("send"), (all) => all.map(([{ body }]) => body))
    return { ...signed, iam, ting, store, send, sends, subscribe, proofs: yield* iam.calls("prove") }
  })

export const settle = Effect.repeatN(Effect.yieldNow(), 20)
