/** The simulated notification service (notification-service.md): proofs checked through IAM, everything kept per plane. */
import { faultControls } from "./Controls.ts"
import { type Now, type Reply, type Seen, type Simulator, startSimulator } from "./Simulator.ts"
import { makeAuthority } from "./ting/Authority.ts"
import { answerControl } from "./ting/Controls.ts"
import { readRequest } from "./ting/Gate.ts"
import { newId } from "./ting/Grammar.ts"
import { makeState } from "./ting/Model.ts"
import { answerProved, provedRoute } from "./ting/Proved.ts"
import { answerSession } from "./ting/Recipient.ts"
import { Refusal, refusalReply } from "./ting/Refusal.ts"
import { type FailNext, makeWorld, type World } from "./ting/World.ts"

export { type PlaneId, production } from "./ting/Model.ts"
export type { TingCode } from "./ting/Refusal.ts"
export type { FailNext, GrantView, MuteScope, RecipientOf, SessionOptions, TingView } from "./ting/World.ts"

export interface TingSimulator extends Simulator, World {
  /** Refuses the next registrations and sends with a code, before the proof is looked at. */
  readonly failNext: FailNext
}

const browserOrigins = ["https://ting.teamofsilicons.com"]

const publicRoutes: ReadonlyMap<string, (appId: string) => unknown> = new Map<
  string,
  (appId: string) => unknown
>([
  ["/healthz", () => ({ status: "ok", service: "ting", version: "0.1.9" })],
  [
    "/v1/iam",
    (appId: string) => ({
      app_id: appId,
      api_version: "v1",
      repository_url: "https://ting.example/repository",
      docs_url: "https://ting.example/docs",
      rust_package: "silicon-ting-client"
    })
  ]
])

/** Starts a Ting without types, grants or tings. `appSecret` is the one that IAM knows in production. */
export const startTing = async (options: {
  readonly now: Now
  readonly iamUrl: string
  readonly appSecret: string
  /** Default `ting`. */
  readonly appId?: string
  readonly port?: number
  /** Browser origins that are let through. */
  readonly origins?: ReadonlyArray<string>
}): Promise<TingSimulator> => {
  const { appId = "ting", origins = browserOrigins } = options
  const state = makeState(options.now)
  const world = makeWorld(state)
  const authority = makeAuthority({ ...options, appId })

  const answer = async (request: Seen): Promise<Reply> => {
    const fields = readRequest(request, origins)
    const open = request.method === "GET" ? publicRoutes.get(request.path) : undefined
    if (open !== undefined) return { status: 200, body: open(appId) }
    const route = provedRoute(request)
    return route === undefined
      ? answerSession(state, authority, options.now, request, fields)
      : answerProved(state, authority, options.now, route, request, fields)
  }

  const handle = async (request: Seen): Promise<Reply> => {
    if (request.path.startsWith("/_sandbox/"))
      return (
        faultControls(request, simulator.fail, simulator.clearFaults) ??
        answerControl(world, failNext, request)
      )
    try {
      return await answer(request)
    } catch (problem) {
      if (problem instanceof Refusal) return refusalReply(problem.code, { message: problem.message })
      throw problem
    }
  }

  const simulator = await startSimulator({
    now: options.now,
    handle,
    decorate: () => ({ "ting-request-id": newId("req"), vary: "Origin" }),
    ...(options.port === undefined ? {} : { port: options.port })
  })

  const failNext: FailNext = (code, { times = 1, committed = false, ...rest } = {}) =>
    simulator.fail({
      method: "POST",
      path: /^\/v1\/(?:tings|subscriptions)$/,
      times,
      fault: { kind: committed ? "reply-after" : "reply", reply: refusalReply(code, rest) }
    })

  return { ...simulator, ...world, failNext }
}
