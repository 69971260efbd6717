/** The port `Ting` as the real client over the simulated Ting, in memory; `SimulatedTing` is the test's control. */
import { HttpClient } from "@effect/platform/HttpClient"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { production } from "../../sandbox/upstreams/Iam.ts"
import { HttpTing } from "../../src/layers/ting/HttpTing.ts"
import type { Settings } from "../../src/services/Settings.ts"
import { Ting } from "../../src/services/Ting.ts"
import type { UpstreamFailure } from "../../src/services/UpstreamFailure.ts"
import { testNow } from "../layers/upstream/Simulated.ts"
import { aroundCalls } from "./Around.ts"
import { makeFaultSwitches } from "./FaultSwitches.ts"
import { clientInMemory } from "./InMemory.ts"
import { SimulatedIam } from "./SimulatedIam.ts"

type TingMethod = "register" | "send"

interface Recipient {
  /** Default `production`. */
  readonly plane?: string
  readonly organisation: string
  readonly publicId: string
}

const make = Effect.gen(function* () {
  const { controls, decorate, handle } = (yield* SimulatedIam).ting
  const transport = Layer.succeed(HttpClient, clientInMemory(yield* testNow, handle, decorate))
  const ting = Context.get(yield* Layer.build(Layer.provide(HttpTing, transport)), Ting)
  const { around, ...switches } = makeFaultSwitches<TingMethod, UpstreamFailure>()
  const simulated = {
    ...switches,
    /** The recipient withdraws the grant; registering again gives it back. */
    revokeGrant: ({ organisation, plane = production, publicId }: Recipient) =>
      Effect.sync(() => controls.revokeGrant({ plane, org: organisation, app_id: "music", for: publicId })),
    isRegistered: ({ organisation, plane = production, publicId }: Recipient) =>
      Effect.sync(() =>
        controls
          .grants(plane)
          .some((grant) => grant.active && grant.org === organisation && grant.for === publicId)
      )
  }
  return { port: aroundCalls(ting, around), simulated }
})

export class SimulatedTing extends Context.Tag("test/SimulatedTing")<
  SimulatedTing,
  Effect.Effect.Success<typeof make>["simulated"]
>() {}

export const layer: Layer.Layer<Ting | SimulatedTing, never, SimulatedIam | Settings> = Layer.scopedContext(
  Effect.map(make, ({ port, simulated }) =>
    Context.make(Ting, port).pipe(Context.add(SimulatedTing, simulated))
  )
)
