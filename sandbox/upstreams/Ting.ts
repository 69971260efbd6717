/** The simulated notification service (notification-service.md): it verifies proofs through IAM and keeps its state per plane. */
import {
  controlRefusal,
  type Fault,
  type Now,
  type Reply,
  type Seen,
  type Simulator,
  startSimulator
} from "./Simulator.ts"
import { makeControls, type TingControls } from "./ting/Controls.ts"
import { answerEndpoint, endpointOf } from "./ting/Endpoints.ts"
import { errorReply, type TingCode, TingError } from "./ting/Errors.ts"
import { newId } from "./ting/Fields.ts"
import { makeIamVerification } from "./ting/IamVerification.ts"
import { production } from "./ting/Model.ts"
import { readBearer, readRequest } from "./ting/RequestChecks.ts"

export type { GrantView, RecipientOf, TingView } from "./ting/Controls.ts"
export type { TingCode } from "./ting/Errors.ts"
export { type PlaneId, production } from "./ting/Model.ts"

export interface TingSimulator extends Simulator, TingControls {
  /** Answers the next registrations and sends with an error code, before the proof is verified. */
  readonly failNext: (
    code: TingCode,
    options?: {
      /** Instead of the code's own status. */
      readonly status?: number
      /** Seconds. */
      readonly retryAfter?: number
      /** Number of calls; default 1. */
      readonly times?: number
      /** Lets the call take effect and replaces only the answer. */
      readonly committed?: boolean
    }
  ) => void
}

/** Ting's own error responses as faults, for `fail`. */
export const tingFaults = {
  rateLimited: (seconds: number): Fault => ({
    kind: "reply",
    reply: errorReply("temporarily_rate_limited", { retryAfter: seconds })
  })
} as const

const appId = "ting"

interface TingOptions {
  readonly now: Now
  readonly iamUrl: string
  /** Ting's secret in IAM's production plane. */
  readonly appSecret: string
  /** Instead of the platform's, for an IAM in memory. */
  readonly fetch?: typeof globalThis.fetch
}

/** A Ting without a socket. */
export interface InMemoryTing {
  readonly controls: TingControls
  readonly handle: (request: Seen) => Promise<Reply>
  readonly decorate: () => Readonly<Record<string, string>>
}

/** A Ting without types, grants or tings. */
export const makeTing = (options: TingOptions): InMemoryTing => {
  const state = new Map()
  const controls = makeControls(state)
  const iam = makeIamVerification({ ...options, appId })

  const answer = async (request: Seen): Promise<Reply> => {
    const fields = readRequest(request)
    if (request.method === "GET" && request.path === "/healthz")
      return { status: 200, body: { status: "ok", service: "ting", version: "0.1.9" } }
    const endpoint = endpointOf(request)
    if (endpoint !== undefined) return answerEndpoint(state, iam, options.now, endpoint, request, fields)
    // Everything else needs a recipient's session, which is not simulated (notification-service.md 2).
    readBearer(request)
    throw new TingError("authentication_required")
  }

  const inbox = ({ query }: Seen): Reply => {
    const org = query.get("org")
    const actor = query.get("for")
    return org === null || actor === null
      ? controlRefusal("org and for are required")
      : { status: 200, body: { items: controls.inbox(query.get("plane") ?? production, org, actor) } }
  }

  const control = (request: Seen): Reply =>
    request.method === "GET" && request.path === "/_sandbox/inbox"
      ? inbox(request)
      : controlRefusal("no such control")

  const handle = async (request: Seen): Promise<Reply> => {
    if (request.path.startsWith("/_sandbox/")) return control(request)
    try {
      return await answer(request)
    } catch (error) {
      if (error instanceof TingError) return errorReply(error.code, { message: error.message })
      throw error
    }
  }

  return { controls, handle, decorate: () => ({ "ting-request-id": newId("req"), vary: "Origin" }) }
}

/** Starts an empty Ting on loopback. */
export const startTing = async (options: TingOptions): Promise<TingSimulator> => {
  const { controls, decorate, handle } = makeTing(options)
  const simulator = await startSimulator({ now: options.now, handle, decorate })

  return {
    ...simulator,
    ...controls,
    failNext: (code, { times = 1, committed = false, ...rest } = {}) =>
      simulator.fail({
        method: "POST",
        path: /^\/v1\/(?:tings|subscriptions)$/,
        times,
        fault: { kind: committed ? "reply-after" : "reply", reply: errorReply(code, rest) }
      })
  }
}
