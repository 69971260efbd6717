/**
 * A simulated Silicon IAM: the part that an application's backend talks to, on real HTTP, with the contract's orders,
 * codes and lifetimes (`contracts/identity-service.md`). Time is the injected clock; randomness is `node:crypto`.
 */
import { makeControl } from "./iam/Control.ts"
import { makeState, production } from "./iam/Model.ts"
import type { PostLimits } from "./iam/WebhookSender.ts"
import { makeRouter } from "./iam/Routes.ts"
import { makeWorld, type World } from "./iam/World.ts"
import { type Now, type Simulator, startSimulator } from "./Simulator.ts"

export type { IamEvent } from "./iam/Events.ts"
export { signExchange } from "./iam/OboProof.ts"
export { iamFaults } from "./iam/Faults.ts"
export type * from "./iam/Model.ts"
export type { Delivery } from "./iam/Outbox.ts"
export { musicScopes, type SeededPlane, type SeededWorld, seedWorld } from "./iam/Seed.ts"
export { type SignedWebhook, signWebhook } from "./iam/WebhookSignature.ts"
export { production, type World }

export interface IamSimulator extends Simulator {
  /** Programmatic control, synchronous but for `deliverDue`. A mistaken name throws. */
  readonly world: World
  /** Every credential ever made, so that a test can search logs and databases for them. */
  readonly minted: ReadonlyArray<string>
}

/** The service's own rate limit for application routes (identity-service.md 1). */
const contractRateLimit = 120

/** Starts an empty IAM on loopback; `seedWorld(iam.world)` fills it. */
export const startIam = async (options: {
  /** Milliseconds since the epoch. */
  readonly now: Now
  /** `0` or absent: any free port. */
  readonly port?: number
  /** Requests per 60 s for one (application, path) of a plane; default 120, `Infinity` for none. */
  readonly rateLimit?: number
  /** Bounds of one webhook attempt; default those of the contract. */
  readonly webhookLimits?: PostLimits
}): Promise<IamSimulator> => {
  const state = makeState(options.now, options.rateLimit ?? contractRateLimit)
  const world = makeWorld(state, options.webhookLimits)
  const router = makeRouter(state)
  const control = makeControl(world, {
    add: (rule) => simulator.fail(rule),
    clear: () => simulator.clearFaults()
  })
  const simulator = await startSimulator({
    now: options.now,
    decorate: (request) => ({ "x-request-id": router.requestIdOf(request) }),
    handle: (request) => (request.path.startsWith("/_sandbox/") ? control(request) : router.handle(request)),
    ...(options.port === undefined ? {} : { port: options.port })
  })
  return { ...simulator, world, minted: world.minted }
}
