import * as Effect from "effect/Effect"
import type { FailureCode } from "../../schema/Failure.ts"
import * as Metrics from "../../services/Metrics.ts"
import { Settings, type SettingsValues } from "../../services/Settings.ts"
import { makeRefusalSummary } from "./RefusalSummary.ts"
import type { Ending, Exchange } from "./Exchange.ts"
import { toMethodName } from "./RequestTrace.ts"

/** The route of every unknown path; the path itself is the caller's text and is not logged. */
const unmatched = "unmatched"

const countRequest = (
  route: string,
  method: string,
  { code, status }: Pick<Ending, "code" | "status">
): void => {
  Metrics.recordNow(Metrics.httpRequests({ route, method, status: String(status) }), 1)
  if (code !== undefined) Metrics.recordNow(Metrics.failures({ code }), 1)
}

/** The client's address as the limits count it; of IPv6 the network. */
const toAddress = (clientNetwork: string): string =>
  clientNetwork.includes(":") ? `${clientNetwork}::/64` : clientNetwork

/** Logs an answer to bytes that never became a request, for the settings. The network is that of the connection. */
export const makeUnparsedLog =
  ({ logClientAddress }: Pick<SettingsValues, "logClientAddress">) =>
  (
    facts: { readonly status: number; readonly code: FailureCode; readonly request_id: string },
    clientNetwork: string
  ): Effect.Effect<void> =>
    Effect.suspend(() => {
      countRequest("unparsed", toMethodName(undefined), facts)
      const client =
        logClientAddress && clientNetwork !== "" ? { client_address: toAddress(clientNetwork) } : {}
      return Effect.logInfo("Request", { method: "", route: "unparsed", ...facts, ...client })
    })

/**
 * Records a request when it is over: one structured log line and its metrics. Never a query or a body, and of the headers only
 * the request id, the source and the client's version. A probe that answers as it should is logged at debug level.
 */
export const makeAccessLog = Effect.gen(function* () {
  const { logClientAddress } = yield* Settings
  const countRefusal = yield* makeRefusalSummary
  return (request: Exchange, ending: Ending): Effect.Effect<void> => {
    const { status, code, endedAt } = ending
    const facts = {
      method: request.message.method ?? "",
      route: request.route?.pattern ?? unmatched,
      status,
      duration_ms: Math.round(Number(endedAt - request.startedAt) / 10_000) / 100
    }
    const method = toMethodName(request.message.method)
    countRequest(facts.route, method, ending)
    Metrics.recordNow(Metrics.httpRequestDuration({ route: facts.route, method }), facts.duration_ms / 1_000)
    const client = logClientAddress ? { client_address: toAddress(request.info.clientNetwork) } : {}
    if (request.exceededQuota !== undefined)
      countRefusal({ quota: request.exceededQuota, method, route: facts.route }, client.client_address)
    const log = request.call?.probe === true && status < 400 ? Effect.logDebug : Effect.logInfo
    return log("Request", {
      ...facts,
      ...(code === undefined ? {} : { code }),
      source: request.info.source,
      ...(request.clientVersion === undefined ? {} : { client_version: request.clientVersion }),
      plane: request.plane,
      actor: request.actor,
      ...client
    })
  }
})
