/** Headers of a response that do not depend on its content (docs/api.md, "Conventions"). */
import { isLowerVersion } from "../../schema/ClientVersion.ts"
import { apiPrefix } from "../Api.ts"
import type { RequestFacts, RequestFindings } from "./RequestState.ts"
import type { WebOrigins } from "./WebOrigins.ts"

const noStore = { "cache-control": "no-store" }

/**
 * The request id always, `no-store` for calls whose response may carry a credential, CORS, rate limits, the end of the
 * connection, and under `/api/v1` the oldest supported version for a client that sends a lower one.
 */
export const makeResponseHeaders =
  (origins: WebOrigins, minCli: string) =>
  (
    { call, clientVersion, info, message, path }: RequestFacts,
    rateLimitHeaders: RequestFindings["rateLimitHeaders"],
    closing: boolean
  ): Readonly<Record<string, string>> => ({
    ...origins.responseHeaders(path, message.headers.origin),
    ...rateLimitHeaders,
    ...(call?.noStore === true ? noStore : {}),
    ...(call?.vary === undefined ? {} : { vary: call.vary }),
    ...(clientVersion !== undefined && path.startsWith(apiPrefix) && isLowerVersion(clientVersion, minCli)
      ? { "x-music-min-cli": minCli }
      : {}),
    ...(closing ? { connection: "close" } : {}),
    "x-request-id": info.requestId
  })
