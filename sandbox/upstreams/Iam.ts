/**
 * A simulated Silicon IAM over real HTTP: the routes that an application's backend calls, with the contract's check
 * orders, codes and lifetimes (`contracts/identity-service.md`). The clock is injected; randomness is `node:crypto`.
 */
import { makeControlRoutes } from "./iam/ControlRoutes.ts"
import { type IamControls, makeControls } from "./iam/Controls.ts"
import { makeState, production } from "./iam/Model.ts"
import { makeRouter } from "./iam/Routes.ts"
import { type Now, type Reply, type Seen, type Simulator, startSimulator } from "./Simulator.ts"

export type { IamControls } from "./iam/Controls.ts"
export type { IamEvent } from "./iam/Events.ts"
export { iamFaults } from "./iam/Faults.ts"
export type * from "./iam/Model.ts"
export { signExchange } from "./iam/OboProof.ts"
export {
  musicScopes,
  type SeededEnvironment,
  type SeededIam,
  type SeededPlane,
  seedEnvironment,
  seedIam
} from "./iam/Seed.ts"
export { type SignedWebhook, signWebhook } from "./iam/WebhookSignature.ts"
export { production }

/** An IAM without a socket. */
export interface InMemoryIam {
  readonly controls: IamControls
  /** Every credential ever made, so that a test can search logs and databases for leaks. */
  readonly minted: ReadonlyArray<string>
  /** Answers every route of the contract. */
  readonly handle: (request: Seen) => Reply
  /** The headers of every response, beside those of the reply. */
  readonly decorate: (request: Seen) => Readonly<Record<string, string>>
}

export interface IamSimulator extends Simulator, Pick<InMemoryIam, "controls" | "minted"> {}

interface IamOptions {
  /** Milliseconds since the epoch. */
  readonly now: Now
  /** Requests per 60 s for one (application, path) of a plane; default 120, `Infinity` for none. */
  readonly rateLimit?: number
}

/** The service's own rate limit for application routes (identity-service.md 1). */
const contractRateLimit = 120

/** An empty IAM; `seedIam(iam.controls)` fills it. */
export const makeIam = ({ now, rateLimit = contractRateLimit }: IamOptions): InMemoryIam => {
  const state = makeState(now, rateLimit)
  const router = makeRouter(state)
  return {
    controls: makeControls(state),
    minted: state.minted,
    handle: router.handle,
    decorate: (request) => ({ "x-request-id": router.requestIdOf(request) })
  }
}

/** Starts an empty IAM on loopback. */
export const startIam = async (options: IamOptions): Promise<IamSimulator> => {
  const { controls, decorate, handle, minted } = makeIam(options)
  const control = makeControlRoutes(controls, () => simulator)
  const simulator = await startSimulator({
    now: options.now,
    decorate,
    handle: (request) => (request.path.startsWith("/_sandbox/") ? control(request) : handle(request))
  })
  return { ...simulator, controls, minted }
}
