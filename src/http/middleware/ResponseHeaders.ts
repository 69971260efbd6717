/** Headers of a response that do not depend on its content (docs/api.md, "Conventions"). */
import type { RequestFacts, RequestFindings } from "./RequestState.ts"
import type { WebOrigins } from "./WebOrigins.ts"

const noStore = { "cache-control": "no-store" }

/** The request id always, `no-store` for calls whose response may carry a credential, CORS, rate limits, and the end of the connection. */
export const responseHeaders = (
  { call, info, message, path }: RequestFacts,
  origins: WebOrigins,
  rateLimitHeaders: RequestFindings["rateLimitHeaders"],
  closing: boolean
): Readonly<Record<string, string>> => ({
  ...origins.responseHeaders(path, message.headers.origin),
  ...rateLimitHeaders,
  ...(call?.noStore === true ? noStore : {}),
  ...(call?.vary === undefined ? {} : { vary: call.vary }),
  ...(closing ? { connection: "close" } : {}),
  "x-request-id": info.requestId
})
