/** Which web origins may call (`MUSIC_WEB_ORIGINS`): the CORS headers of `/api/v1`, and the refusal of telemetry from other origins. */
import * as Effect from "effect/Effect"
import { Failure } from "../../schema/Failure.ts"
import { daemonTable } from "../../schema/Telemetry.ts"
import { apiPrefix } from "../api/Endpoint.ts"
import type { Exchange } from "./Exchange.ts"

const allowedHeaders = [
  ...["Authorization", "Content-Type", "Idempotency-Key", "X-Org-ID", "X-Request-Id"],
  ...["X-Testing-Environment-Key", "X-Music-Telemetry", "X-Music-Source", "X-Music-Client-Version"],
  "traceparent"
].join(", ")

const exposedHeaders = "X-Request-Id, Retry-After, RateLimit, RateLimit-Policy, X-Music-Min-Cli"

/** Seconds that a browser may cache a preflight. */
const maxAge = "600"

const isAllowed = (origins: ReadonlyArray<string>, origin: string | undefined): origin is string =>
  origin !== undefined && origins.includes(origin)

/** CORS headers of every response; `allow` has the methods in that to `OPTIONS`. */
export const corsHeaders = (
  origins: ReadonlyArray<string>,
  { message: { headers }, path }: Exchange,
  allow: string | undefined
) => {
  if (origins.length === 0 || !path.startsWith(apiPrefix)) return {}
  // Sent to every origin once there is a list: a cache must not give one origin's response to another.
  const varying = { vary: "Origin" }
  const { origin } = headers
  if (!isAllowed(origins, origin)) return varying
  const isPreflight = allow !== undefined && headers["access-control-request-method"] !== undefined
  return {
    ...varying,
    "access-control-allow-origin": origin,
    "access-control-expose-headers": exposedHeaders,
    ...(isPreflight
      ? {
          "access-control-allow-methods": allow,
          "access-control-allow-headers": allowedHeaders,
          "access-control-max-age": maxAge
        }
      : {})
  }
}

/** Browsers may send telemetry from an allowed origin only, and never to the daemon's table. */
export const checkTelemetryOrigin = (
  origins: ReadonlyArray<string>,
  origin: string | undefined,
  table: string
): Effect.Effect<void, Failure<"origin_not_allowed">> =>
  origin === undefined || (isAllowed(origins, origin) && table !== daemonTable)
    ? Effect.void
    : new Failure("origin_not_allowed")
