/**
 * A simulated Silicon IAM over real HTTP: the routes that an application's backend calls, with the contract's check
 * orders, codes and lifetimes (`contracts/identity-service.md`). The clock is injected; randomness is `node:crypto`.
 */
import { makeControlRoutes } from "./iam/ControlRoutes.ts"
import { type IamControls, makeControls } from "./iam/Controls.ts"
import { makeState, production } from "./iam/Model.ts"
import { makeRouter } from "./iam/Routes.ts"
import { type Now, type Simulator, startSimulator } from "./Simulator.ts"

export type { IamControls } from "./iam/Controls.ts"
export type { IamEvent } from "./iam/Events.ts"
export { iamFaults } from "./iam/Faults.ts"
export type * from "./iam/Model.ts"
export { signExchange } from "./iam/OboProof.ts"
export { musicScopes, type SeededIam, type SeededPlane, seedIam } from "./iam/Seed.ts"
export { type SignedWebhook, signWebhook } from "./iam/WebhookSignature.ts"
export { production }

export interface IamSimulator extends Simulator {
  readonly controls: IamControls
  /** Every credential ever made, so that a test can search logs and databases for leaks. */
  readonly minted: ReadonlyArray<string>
}

/** The service's own rate limit for application routes (identity-service.md 1). */
const contractRateLimit = 120

/** Starts an empty IAM on loopback; `seedIam(iam.controls)` fills it. */
export const startIam = async (options: {
  /** Milliseconds since the epoch. */
  readonly now: Now
  /** Requests per 60 s for one (application, path) of a plane; default 120, `Infinity` for none. */
  readonly rateLimit?: number
}): Promise<IamSimulator> => {
  const state = makeState(options.now, options.rateLimit ?? contractRateLimit)
  const controls = makeControls(state)
  const router = makeRouter(state)
  const control = makeControlRoutes(controls, () => simulator)
  const simulator = await startSimulator({
    now: options.now,
    decorate: (request) => ({ "x-request-id": router.requestIdOf(request) }),
    handle: (request) => (request.path.startsWith("/_sandbox/") ? control(request) : router.handle(request))
  })
  return { ...simulator, controls, minted: state.minted }
}
